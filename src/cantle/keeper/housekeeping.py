"""What nobody waits for: requests that were never bound, leases long released, events that are done with, keys of requests long done,
owners of instances long gone."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from sqlalchemy import Connection

from cantle.engine import audit
from cantle.keeper.expiry import WARNING_S
from cantle.model.audit import LEASE_PURGED, PURGED, REAPED, Thing
from cantle.model.identity import KEEPER
from cantle.store import audit as audit_store
from cantle.store import idempotency, lease, outbox, owner, parting
from cantle.store.database import Database
from cantle.store.faults import LookAgain

LOG = logging.getLogger("cantle.audit")

#: Deleted in one transaction, so that none holds others up for long.
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Ages:
    """How long things are kept.

    :param unbound_hours: requests that are bound to nothing; 0 keeps them for ever.
    :param lease_days: leases after their release; 0 keeps them for ever.
    :param event_days: events after their end.
    :param key_hours: what creating requests were answered, by their idempotency keys.
    :param audit_days: records of the audit log; 0 keeps them for ever.
    :param expiry_warning: seconds before its end at which a lease is announced.
    :param owner_days: whose an instance was, after its accelerators were taken from it.
    """

    unbound_hours: float = 24
    lease_days: float = 90
    event_days: float = 7
    key_hours: float = 24
    owner_days: int = 400
    audit_days: int = 0
    expiry_warning: float = WARNING_S


def sweep(db: Database, ages: Ages) -> dict[str, int]:
    """Delete what is old enough; how many of each kind."""
    return {
        "requests": reap(db, ages.unbound_hours),
        "leases": forget_leases(db, ages.lease_days),
        "events": db.run(lambda connection: outbox.purge(connection, ages.event_days, db.outlets.told)),
        "keys": db.run(lambda connection: idempotency.forget(connection, ages.key_hours)),
        "records": purge_audit(db, ages.audit_days),
        "owners": db.run(lambda connection: owner.forget(connection, ages.owner_days)),
    }


def purge_audit(db: Database, days: int) -> int:
    """Delete what was written into the audit log so many days ago, and write there that this was done."""
    if days == 0:
        return 0

    def work(connection: Connection) -> int:
        gone = audit_store.purge(connection, days)
        if gone:
            facts = {"records": str(gone), "older_than_days": str(days)}
            audit.record(connection, KEEPER, PURGED, Thing(facts=facts))
        return gone

    gone = db.run(work)
    if gone:
        LOG.info("%s %d records older than %d days by the keeper", PURGED, gone, days)
    return gone


def reap(db: Database, hours: float) -> int:
    """Delete requests that are bound to nothing (Initial or Unbound, of no lease) and that nobody touched for so many hours.

    Nova leaves such behind when it fails between making and binding them (contract section 7.1 #3). They hold nothing. Each is in the
    audit log.
    """
    if hours == 0:
        return 0
    deleted = 0
    while True:
        with db.read() as connection:
            if not parting.left(connection, hours * 3600.0, 1):
                return deleted
        gone = db.run(lambda connection: _reap_some(connection, hours))
        if gone:
            LOG.info("%s %s by the keeper: bound to nothing for %g h", REAPED, " ".join(gone), hours)
        deleted += len(gone)
        if len(gone) < AT_ONCE:
            return deleted


def _reap_some(connection: Connection, hours: float) -> list[str]:
    """:raises LookAgain: somebody bound or deleted one of them meanwhile."""
    rows = parting.left(connection, hours * 3600.0, AT_ONCE)
    facts = {"unbound_hours": f"{hours:g}"}
    audit.record(connection, KEEPER, REAPED, *(Thing(row.project_id, arq_uuid=row.uuid, facts=facts) for row in rows))
    if rows and parting.remove_left(connection, [row.id for row in rows], hours * 3600.0) < len(rows):
        raise LookAgain
    return [row.uuid for row in rows]


def forget_leases(db: Database, days: float) -> int:
    """Delete leases that were released so many days ago and whose units are all back. That, and what was done with them, stays in the
    audit log."""
    if days == 0:
        return 0
    deleted = 0
    while True:
        with db.read() as connection:
            if not lease.past(connection, days, 1):
                return deleted
        gone = db.run(lambda connection: _forget_some(connection, days))
        if gone:
            LOG.info("%s %s by the keeper: released %g days ago", LEASE_PURGED, " ".join(gone), days)
        deleted += len(gone)
        if len(gone) < AT_ONCE:
            return deleted


def _forget_some(connection: Connection, days: float) -> list[str]:
    """:raises LookAgain: another keeper deletes them too."""
    rows = lease.past(connection, days, AT_ONCE)
    facts = {"released_days": f"{days:g}"}
    things = (Thing(row.project_id, row.hostname, lease_uuid=row.uuid, facts=facts) for row in rows)
    audit.record(connection, KEEPER, LEASE_PURGED, *things)
    if rows and lease.remove_past(connection, [row.id for row in rows], days) < len(rows):
        raise LookAgain
    return [row.uuid for row in rows]
