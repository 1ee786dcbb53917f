"""Giving a lease another end."""

from __future__ import annotations

from sqlalchemy import Connection

from cantle.engine import absent, announce, audit
from cantle.engine.access import sees
from cantle.engine.clock import now
from cantle.engine.lease import thing
from cantle.engine.terms import End, check_stoppable, end_time
from cantle.errors import Conflict
from cantle.model import uuids
from cantle.model.event import EventType
from cantle.model.identity import Identity
from cantle.model.lease import Lease, OnExpiry
from cantle.store import lease as store
from cantle.store.database import Database, lease_topic, wake


def renew_lease(db: Database, who: Identity, uuid: str, expires_at: End, on_expiry: OnExpiry | None = None) -> Lease:
    """Let a lease end at another time, or never; it is announced anew. One whose time is over, but which stands, can be renewed too.

    :param expires_at: a time, aware and in the future, or so long from now; None: it does not end by itself.
    :param on_expiry: what happens then; None: as before.
    :raises BadRequest: ``bad-lease``.
    :raises NotFound: ``lease-not-found``.
    :raises Conflict: ``lease-over``: it was given back; ``no-attachment``, ``guest-not-stopped``.
    """
    until = end_time(db, expires_at)

    def work(connection: Connection) -> Lease:
        row = store.row_by_uuid(connection, uuids.canonical(uuid) or "")
        if row is None or not sees(who, row.project_id):
            raise absent.lease(uuid)
        then = on_expiry or OnExpiry(row.on_expiry)
        if then is OnExpiry.STOP_GUEST:
            check_stoppable(f"Lease {row.uuid}", row.guest_kind)
        moment = now()
        if not store.renew(connection, row.id, until, then, moment):
            raise Conflict("lease-over", f"Lease {row.uuid} was given back; ask for a new one.", uuid=row.uuid)
        told = "never" if until is None else until.isoformat()
        audit.record(connection, who, "lease.renew", thing(row, expires_at=told, on_expiry=then))
        wake(connection, lease_topic(row.uuid))
        found = store.by_uuid(connection, row.uuid)
        assert found is not None  # noqa: S101 - its row was just changed
        announce.lease_is(connection, EventType.LEASE_RENEWED, found, moment)
        return found

    lease = db.run(work)
    audit.note(who, "lease.renew", lease.uuid)
    return lease
