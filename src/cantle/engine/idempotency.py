"""Creating once, however often it is asked for under one key: the answer is kept in the transaction that creates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy import Connection

from cantle.errors import Unavailable, Unprocessable
from cantle.model.idempotency import IdempotencyKey
from cantle.store import idempotency as store
from cantle.store.database import Database

T = TypeVar("T")


class AlreadyAnswered(Exception):
    """It was done before under the same key, and nothing was done now. ``answer`` is what was answered then: JSON text."""

    def __init__(self, answer: str) -> None:
        super().__init__("answered before")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Once(Generic[T]):
    """A creation that may be asked for again.

    :param answer: what the caller is answered once it is made: JSON text.
    """

    key: IdempotencyKey
    answer: Callable[[T], str]


def run(db: Database, work: Callable[[Connection], T], once: Once[T] | None) -> T:
    """`Database.run`, once. Two more statements; of what fails nothing is kept, so it may be tried again under the same key.

    The same request may be under way twice, since its caller did not wait: what one has made can be what the other is refused for.

    :raises AlreadyAnswered: it was done before.
    :raises Unprocessable: ``idempotency-key-reused``: another request was done under this key.
    """
    if once is None:
        return db.run(work)

    def work_once(connection: Connection) -> T:
        _look(connection, once.key)
        made = work(connection)
        store.add(connection, once.key, once.answer(made))
        return made

    try:
        return db.run(work_once)
    except (AlreadyAnswered, Unprocessable, Unavailable):
        raise
    except Exception:
        with db.read() as connection:
            _look(connection, once.key)
        raise


def _look(connection: Connection, key: IdempotencyKey) -> None:
    """:raises AlreadyAnswered, Unprocessable: as `run`."""
    before = store.find(connection, key)
    if before is None:
        return
    if before.request != key.request:
        raise Unprocessable(
            "idempotency-key-reused",
            "Another request was done under this Idempotency-Key. Use a fresh one for each new request.",
        )
    raise AlreadyAnswered(before.answer)
