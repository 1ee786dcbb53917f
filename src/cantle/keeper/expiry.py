"""Leases whose time is over are given back."""

from __future__ import annotations

from sqlalchemy import Connection

from cantle.engine.lease import end
from cantle.store import lease
from cantle.store.database import Database


def sweep(db: Database, most: int = 100) -> int:
    """Give back expired leases, at most that many; how many this process gave back. Safe beside other keepers."""
    with db.read() as connection:
        uuids = lease.expired(connection, most)
    return sum(_end(db, uuid) for uuid in uuids)


def _end(db: Database, uuid: str) -> bool:
    def work(connection: Connection) -> bool:
        row = lease.row_by_uuid(connection, uuid)
        return row is not None and end(connection, row, expired=True)

    return db.run(work)
