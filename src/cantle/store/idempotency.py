"""What creating requests were answered, by their idempotency keys."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, insert, select

from cantle.model.idempotency import IdempotencyKey
from cantle.store.idempotency_table import idempotency_keys
from cantle.store.types import Record, database_now

_FIND = select(idempotency_keys.c.request, idempotency_keys.c.answer).where(
    idempotency_keys.c.place == bindparam("place")
)
_ADD = insert(idempotency_keys).values(created_at=database_now())


def find(connection: Connection, key: IdempotencyKey) -> Record | None:
    """``request`` and ``answer`` of the request that was done under this key."""
    return connection.execute(_FIND, {"place": key.place}).first()


def add(connection: Connection, key: IdempotencyKey, answer: str) -> None:
    """Remember the answer. Where somebody else was quicker the database refuses, and the whole transaction is done again."""
    connection.execute(_ADD, {"place": key.place, "request": key.request, "answer": answer})


def forget(connection: Connection, hours: float) -> int:
    """Delete what is so old; how many."""
    before = database_now(-3600.0 * hours)
    return connection.execute(delete(idempotency_keys).where(idempotency_keys.c.created_at < before)).rowcount
