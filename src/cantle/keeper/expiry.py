"""Leases whose time is over are given back, and owners of long gone instances forgotten."""

from __future__ import annotations

from sqlalchemy import Connection

from cantle.engine.lease import end
from cantle.store import lease, owner
from cantle.store.database import Database

#: For how long the owner of an instance is remembered after its accelerators were last taken from it: a shelved instance may rest long.
OWNER_DAYS = 400


def sweep(db: Database, most: int = 100) -> int:
    """Give back expired leases, at most that many; how many this process gave back. Safe beside other keepers."""
    with db.read() as connection:
        uuids = lease.expired(connection, most)
    return sum(_end(db, uuid) for uuid in uuids)


def forget_owners(db: Database) -> int:
    """Forget owners not seen for `OWNER_DAYS`; how many."""
    return db.run(lambda connection: owner.forget(connection, OWNER_DAYS))


def _end(db: Database, uuid: str) -> bool:
    def work(connection: Connection) -> bool:
        row = lease.row_by_uuid(connection, uuid)
        return row is not None and end(connection, row, expired=True)

    return db.run(work)
