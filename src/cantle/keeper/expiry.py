"""Leases that are about to end are announced; those whose time is over end as they say (`cantle.model.lease.OnExpiry`)."""

from __future__ import annotations

from functools import partial

from sqlalchemy import Connection

from cantle.engine import expiry
from cantle.store import lease
from cantle.store.database import Database

#: A lease is announced so long before it ends, or as soon as it has less time left.
WARNING_S = 600.0


def sweep(db: Database, most: int = 100, *, warning: float = WARNING_S) -> int:
    """Announce leases that end within ``warning`` seconds, then end those whose time is over, at most so many of each; how many this
    process ended. Safe beside other keepers: each is announced once and ended once. None ends that was not announced."""
    with db.read() as connection:
        ending = lease.ending(connection, warning, most)
    for uuid in ending:
        db.run(partial(_warn, uuid))
    with db.read() as connection:
        over = lease.expired(connection, most)
    return sum(db.run(partial(_expire, uuid)) for uuid in over)


def _warn(uuid: str, connection: Connection) -> bool:
    return expiry.warn(connection, uuid)


def _expire(uuid: str, connection: Connection) -> bool:
    return expiry.expire(connection, uuid)
