"""Leases that go to another host, of workloads that do not run meanwhile (spec S2.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from sqlalchemy import Connection

from cantle.engine import absent, announce, audit, choice, explain, guest, quota
from cantle.engine import lease as leases
from cantle.engine.access import sees
from cantle.engine.choice import Asked
from cantle.engine.clock import now
from cantle.engine.terms import Terms
from cantle.errors import Conflict
from cantle.model import uuids
from cantle.model.alias import Aliases
from cantle.model.attachment import GuestKind
from cantle.model.explanation import Explanation
from cantle.model.identity import Identity
from cantle.model.lease import Lease, OnExpiry
from cantle.store import arq, claim, host, stock
from cantle.store import lease as store
from cantle.store.attachment import attachment
from cantle.store.database import Database, host_topic, lease_topic, wake
from cantle.store.faults import LookAgain
from cantle.store.types import Record


def can_move(
    db: Database, who: Identity, uuid: str, *, to: str, aliases: Aliases, nodes: Collection[int] = ()
) -> Explanation:
    """Whether a host could take a lease over now, and why not. Changes nothing.

    :param to: the host's name.
    :param nodes: the guest's memory nodes there, as for a new lease.
    :raises NotFound: ``lease-not-found``, ``host-not-found``.
    :raises Conflict: ``lease-over``, ``lease-is-there``, ``guest-has-enough``.
    """
    with db.read() as connection:
        row = _row(connection, who, uuid, to)
        asked = _asked(connection, row, aliases)
        into = attachment(row)
        if into is not None and (found := choice.find(connection, asked, hostname=to, nodes=nodes)) is not None:
            guest.check_room(connection, into, found.host_id, found.taken)
        return explain.look(connection, asked, hostname=to, nodes=nodes)


def move_lease(
    db: Database, who: Identity, uuid: str, *, to: str, stopped: bool, aliases: Aliases, nodes: Collection[int] = ()
) -> Lease:
    """Claim on that host what the lease asks for, and give back what it has: both, or neither. It is the same lease, pending until the
    new host has made its units ready; the old host takes back what it had.

    :param stopped: the caller's word that the workload does not run: its devices go away under it.
    :raises NotFound: ``lease-not-found``, ``host-not-found``.
    :raises Conflict: ``workload-not-stopped``, ``lease-over``, ``lease-is-there``; ``quota-exceeded`` while its units of an earlier move
        are not back; ``guest-has-enough`` of a guest of that name there.
    :raises NoCapacity: ``no-capacity``, with the explanation of that host.
    """
    if not stopped:
        raise Conflict(
            "workload-not-stopped",
            "Only a stopped workload can go to another host: stop it, and say that it is (--stopped).",
        )

    def work(connection: Connection) -> Lease:
        row = _row(connection, who, uuid, to)
        asked = _asked(connection, row, aliases)
        found = choice.hold(connection, asked, hostname=to, nodes=nodes)
        if found is None:
            found_out = explain.look(connection, asked, hostname=to, nodes=nodes)
            raise explain.refusal(asked, found_out, hostname=to, nodes=nodes)
        guest.check_room(connection, attachment(row), found.host_id, found.taken)
        host.lock(connection, [row.host_id])
        # What the lease has now goes. What an earlier move has left behind, and is not back, is had besides.
        back = Counter(one.resource_class for one in claim.of_lease(connection, row.id) if one.wanted)
        quota.check(connection, row.project_id, found.taken, back=back)
        moment = now()
        before = announce.leases_now(connection, {row.uuid})
        if not store.move(connection, row, found.host_id, moment):
            raise LookAgain  # given back, or moved by somebody else
        claim.unwant_of_lease(connection, row.id, moment, who)
        arq.remove_of_lease(connection, row.id)
        owner = Identity(row.owner, row.project_id, request_id=who.request_id)
        terms = Terms(owner, asked, row.workload, row.expires_at, OnExpiry(row.on_expiry), moment)
        leases.claim_units(connection, terms, found, row.id, row.uuid)
        stock.refresh(connection, [row.host_id])
        audit.record(connection, who, "lease.move", leases.thing(row, to=to))
        announce.leases_changed(connection, before, moment)
        wake(connection, host_topic(row.hostname))
        wake(connection, lease_topic(row.uuid))
        moved = store.by_uuid(connection, row.uuid)
        assert moved is not None  # noqa: S101 - it was just changed
        return moved

    lease = db.run(work)
    audit.note(who, "lease.move", lease.uuid, f"to {lease.hostname}")
    return lease


def _row(connection: Connection, who: Identity, uuid: str, to: str) -> Record:
    row = store.row_by_uuid(connection, uuids.canonical(uuid) or "")
    if row is None or not sees(who, row.project_id):
        raise absent.lease(uuid)
    if row.released_at is not None:
        raise _over(row.uuid)
    if host.find(connection, to) is None:
        raise absent.host(to)
    if row.hostname == to:
        raise Conflict("lease-is-there", f"Lease {row.uuid} is on {to} already.")
    return row


def _asked(connection: Connection, row: Record, aliases: Aliases) -> Asked:
    """What the lease asked for, as often as it did."""
    times = row.times
    if times is None:  # of an older version: so often as its first group's units are there
        once = choice.by_name(connection, row.profile_name, 1, aliases)
        first = sum(one.group_id == 0 for one in arq.of_lease(connection, row.id))
        times = max(1, first // once.request.groups[0].units)
    again = choice.by_name(connection, row.profile_name, times, aliases)
    return choice.into(again, GuestKind(row.guest_kind) if row.guest_kind is not None else None)


def _over(uuid: str) -> Conflict:
    return Conflict("lease-over", f"Lease {uuid} was given back: there is nothing to move.")
