"""Creating once, however often it is asked for under one key: the answer is kept in the transaction that creates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy import Connection

from cantle.errors import Unprocessable
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

    :raises AlreadyAnswered: it was done before.
    :raises Unprocessable: ``idempotency-key-reused``: another request was done under this key.
    """
    if once is None:
        return db.run(work)

    def work_once(connection: Connection) -> T:
        before = store.find(connection, once.key)
        if before is not None:
            if before.request != once.key.request:
                raise Unprocessable(
                    "idempotency-key-reused",
                    "Another request was done under this Idempotency-Key. Use a fresh one for each new request.",
                )
            raise AlreadyAnswered(before.answer)
        made = work(connection)
        store.add(connection, once.key, once.answer(made))
        return made

    return db.run(work_once)
