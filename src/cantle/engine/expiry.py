"""The end of a lease's time: announced before, then done as the lease says. Promise 4: expiry is one of the three ways in which a lease
ends, and never a surprise."""

from __future__ import annotations

from sqlalchemy import Connection

from cantle.engine import announce, audit
from cantle.engine.clock import now
from cantle.engine.lease import end, thing
from cantle.model.event import EventType
from cantle.model.identity import KEEPER
from cantle.model.lease import OnExpiry
from cantle.store import lease as store
from cantle.store.database import lease_topic, wake


def warn(connection: Connection, uuid: str) -> bool:
    """Announce that a lease ends soon; False when it was announced already, or was given back or renewed meanwhile."""
    row = store.row_by_uuid(connection, uuid)
    if row is None or not store.warned(connection, row):
        return False
    audit.record(
        connection, KEEPER, "lease.expiring", thing(row, expires_at=row.expires_at.isoformat(), on_expiry=row.on_expiry)
    )
    announce.lease_told(connection, EventType.LEASE_EXPIRING, row.uuid, now())
    return True


def expire(connection: Connection, uuid: str) -> bool:
    """Do what a lease says should happen when its time is over; False when that was done, or it was given back or renewed meanwhile."""
    row = store.row_by_uuid(connection, uuid)
    if row is None or not store.mark_expired(connection, row):
        return False
    audit.record(connection, KEEPER, "lease.expired", thing(row, on_expiry=row.on_expiry))
    # Before its end is told, after which nothing may come.
    announce.lease_told(connection, EventType.LEASE_EXPIRED, row.uuid, now())
    if row.on_expiry == OnExpiry.NOTIFY:
        wake(connection, lease_topic(row.uuid))
    else:
        end(connection, row, KEEPER)
    return True
