"""Ending a lease whose units did not come back: with the host's word that nobody holds them, or on a person's (promise 4)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from cantle.engine import absent, announce, audit, loan
from cantle.engine.access import sees
from cantle.engine.clock import now
from cantle.engine.lease import end, thing
from cantle.errors import BadRequest, Conflict
from cantle.model import uuids
from cantle.model.audit import UNIT_FORCED
from cantle.model.identity import Identity
from cantle.model.lease import FREED, Lease
from cantle.store import claim, host, stock
from cantle.store import lease as store
from cantle.store.database import Database, host_topic, lease_topic, wake
from cantle.store.faults import LookAgain
from cantle.store.types import Record

#: Characters of a reason.
LONGEST_REASON = 500


def force_release(db: Database, who: Identity, uuid: str, reason: str | None = None) -> Lease:
    """Give a lease back and wait for its host no longer: it is released at once.

    Its units can be lent again when their host reports them, under other uuids, so that no late word about the old ones concerns them;
    the host still takes back what is left, and makes none ready that somebody holds.

    :param reason: on whose word, where the host has not said that nobody holds the units; kept in the audit log.
    :raises BadRequest: ``bad-reason``.
    :raises NotFound: ``lease-not-found``.
    :raises Conflict: ``units-may-be-held``, with each unit and what its host says; nothing was done.
    """
    if reason is not None and not 1 <= len(reason.strip()) <= LONGEST_REASON:
        raise BadRequest("bad-reason", f"The reason has {len(reason)} characters; give 1 to {LONGEST_REASON}.")

    def work(connection: Connection) -> Lease:
        row = store.row_by_uuid(connection, uuids.canonical(uuid) or "")
        if row is None or not sees(who, row.project_id):
            raise absent.lease(uuid)
        # Of a lease that was moved the former host may still hold units.
        holding = {one.held_on_id for one in claim.of_lease(connection, row.id)} | {row.host_id}
        host.lock(connection, sorted(holding))
        claims = claim.of_lease(connection, row.id)
        if not holding.issuperset(one.held_on_id for one in claims):
            raise LookAgain
        held = [one for one in claims if one.stage not in FREED]
        if held and reason is None:
            raise _no_proof(row, held)
        end(connection, row, who)
        if claims:
            _let_go(connection, who, row, claims, reason)
        found = store.by_uuid(connection, row.uuid)
        assert found is not None  # noqa: S101 - its row is locked
        return found

    lease = db.run(work)
    audit.note(who, "lease.force", lease.uuid, reason or "nobody holds it")
    return lease


def _let_go(connection: Connection, who: Identity, row: Record, claims: Sequence[Record], reason: str | None) -> None:
    before = announce.leases_now(connection, {row.uuid})
    lines = []
    for one in claims:
        proof = f"its host says that nobody holds it ({one.stage})" if one.stage in FREED else "none"
        facts = {
            "proof": proof,
            **({"reason": reason} if reason else {}),
            **({"host": one.reason} if one.reason else {}),
        }
        lines.append(audit.line(who, UNIT_FORCED, loan.thing(one, row.hostname, facts)) | {"since": one.lent_at})
    audit.record_all(connection, [*lines, audit.line(who, "lease.force", thing(row, reason=reason)) | {"since": None}])
    claim.remove(connection, [one.id for one in claims])
    claim.remove_handles(connection, [one.handle_id for one in claims])
    held_on = sorted({one.held_on_id for one in claims})
    for host_id in held_on:
        host.change(connection, host_id, digest=None)  # so that the host's next report is read in full
    stock.refresh(connection, held_on)
    announce.leases_changed(connection, before, now())
    for hostname in {row.hostname, *host.names(connection, held_on)}:
        wake(connection, host_topic(hostname))
    wake(connection, lease_topic(row.uuid))


def _no_proof(row: Record, held: Sequence[Record]) -> Conflict:
    units = "; ".join(
        f"{one.uuid} on {one.device}: {one.reason or 'its host has not said that nobody holds it'}" for one in held
    )
    return Conflict(
        "units-may-be-held",
        f"Somebody may still hold units of lease {row.uuid} on {row.hostname}: {units}. Release it and wait, end what holds them, "
        "or say with --reason on whose word they are free.",
        uuid=row.uuid,
    )
