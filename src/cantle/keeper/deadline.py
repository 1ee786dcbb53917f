"""Binds whose host did not answer in time end as failed, and their units are taken back."""

from __future__ import annotations

from sqlalchemy import Connection

from cantle.engine.clock import BIND_SECONDS, now
from cantle.store import arq, claim, host
from cantle.store.database import Database, host_topic, lease_topic, wake
from cantle.store.types import Record

#: The code an ARQ shows then.
CODE = "bind-timeout"


def sweep(db: Database, most: int = 100) -> int:
    """End overdue binds, at most that many; how many this process ended. Others may sweep at the same time: each bind is ended once."""
    with db.read() as connection:
        rows = arq.overdue(connection, most)
    return sum(_end(db, row) for row in rows)


def _end(db: Database, row: Record) -> bool:
    def work(connection: Connection) -> bool:
        host.lock(connection, [row.host_id])
        why = f"Host {row.hostname} did not make the unit ready within {BIND_SECONDS:.0f} s."
        if not arq.expire(connection, row.id, CODE, why, now()):
            return False
        claim.unwant(connection, [row.id], now())
        wake(connection, host_topic(row.hostname))
        if row.lease_uuid is not None:
            wake(connection, lease_topic(row.lease_uuid))
        return True

    return db.run(work)
