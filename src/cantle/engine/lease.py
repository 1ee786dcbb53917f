"""Leases: everything one workload needs, lent together, without OpenStack (design, *Scheduling*)."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection

from cantle.engine import absent, announce, audit, choice, explain, guest, idempotency, quota
from cantle.engine.access import project_filter, sees
from cantle.engine.choice import Asked
from cantle.engine.clock import BIND_SECONDS, now
from cantle.engine.terms import End, Terms, check_size, check_startable, check_stoppable, end_time
from cantle.model import uuids
from cantle.model.alias import NO_ALIASES, Aliases
from cantle.model.arq import Arq, ArqState
from cantle.model.attachment import Attachment
from cantle.model.audit import Thing
from cantle.model.event import EventType
from cantle.model.identity import Identity
from cantle.model.isolation import of_device
from cantle.model.lease import SETTLED, Lease, LeaseState, OnExpiry
from cantle.model.page import Page
from cantle.scheduling.choose import Choice
from cantle.scheduling.fit import Taken
from cantle.store import arq, claim, host, stock
from cantle.store import attachment as attachments
from cantle.store import lease as store
from cantle.store.database import Database, host_topic, lease_topic, wake
from cantle.store.faults import LookAgain
from cantle.store.types import Record
from cantle.store.wakeups import Patience


def create_lease(
    db: Database,
    who: Identity,
    *,
    profile_name: str,
    hostname: str | None = None,
    count: int = 1,
    workload: str = "",
    expires_at: End = None,
    on_expiry: OnExpiry = OnExpiry.DETACH,
    nodes: Collection[int] = (),
    aliases: Aliases = NO_ALIASES,
    attachment: Attachment | None = None,
    start: bool = False,
    once: idempotency.Once[Lease] | None = None,
) -> Lease:
    """Choose a host and its units for ``count`` times a profile or flavor, claim them and tell the host. The lease is pending then.

    :param hostname: the only host that may be chosen.
    :param workload: who will use it, in the caller's words: at most 255 characters.
    :param expires_at: when what ``on_expiry`` says happens by itself: a time, aware and in the future, or so long from now.
    :param nodes: the guest's memory nodes; empty: cards must be near each other only, if the request says so.
    :param aliases: the PCI aliases that a flavor may name.
    :param attachment: the guest on the chosen host that the units go into by themselves.
    :param start: start that guest, if it does not run, once it has them.
    :param once: see `cantle.engine.idempotency.run`, with what that raises.
    :raises BadRequest: ``bad-lease``; what a flavor's extra specs raise (`cantle.model.extra_specs.read`).
    :raises NotFound: ``profile-not-found``, ``host-not-found``.
    :raises NoCapacity: ``no-capacity``; the message says why, ``details["explanation"]`` in full.
    :raises Conflict: ``quota-exceeded``; ``guest-has-enough``; ``no-attachment`` or ``guest-not-stopped`` for a guest that is to be
        stopped.
    """
    check_size(count, workload)
    until = end_time(db, expires_at)
    if on_expiry is OnExpiry.STOP_GUEST:
        check_stoppable("This lease", None if attachment is None else attachment.kind)
    if start:
        check_startable(attachment)

    def work(connection: Connection) -> Lease:
        named = choice.by_name(connection, profile_name, count, aliases)
        asked = choice.into(named, None if attachment is None else attachment.kind)
        found = choice.hold(connection, asked, hostname=hostname, nodes=nodes)
        if found is None:
            raise _Nothing(asked)
        quota.check(connection, who.project_id, found.taken)
        guest.check_room(connection, attachment, found.host_id, found.taken)
        terms = Terms(who, asked, workload, until, on_expiry, now(), attachment, start)
        return lend(connection, terms, found)

    try:
        lease = idempotency.run(db, work, once)
    except _Nothing as nothing:
        _refuse(db, nothing.asked, hostname, nodes)
        choice.repair(db)  # a host would do, and was not found: the hint was wrong there
        lease = idempotency.run(db, work, once)
    audit.note(who, "lease.create", lease.uuid, f"on {lease.hostname}")
    return lease


class _Nothing(Exception):
    """No host was found by what hosts are thought to have free."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked.name)
        self.asked = asked


def _refuse(db: Database, asked: Asked, hostname: str | None, nodes: Collection[int]) -> None:
    """Look at every host. Returns only when one would do."""
    with db.read() as connection:
        if hostname is not None and host.find(connection, hostname) is None:
            raise absent.host(hostname)
        explanation = explain.look(connection, asked, hostname=hostname, nodes=nodes)
    if not explanation.fit_count:
        raise explain.refusal(asked, explanation, hostname=hostname, nodes=nodes)


def get_lease(db: Database, who: Identity, uuid: str) -> Lease:
    """One lease of the caller's.

    :raises NotFound: ``lease-not-found``, also for what is no uuid.
    """
    with db.read() as connection:
        found = store.by_uuid(connection, uuids.canonical(uuid) or "")
    if found is None or not sees(who, found.project_id):
        raise absent.lease(uuid)
    return found


def list_leases(
    db: Database, who: Identity, *, page: Page | None = None, include_released: bool = False, **where: str | None
) -> list[Lease]:
    """The caller's leases; those given back completely only if asked for.

    :param where: exactly these values of hostname, workload, profile_name; None says nothing.
    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    """
    with db.read() as connection:
        return store.listed(
            connection, where, project=project_filter(who), include_released=include_released, page=page
        )


def release_lease(db: Database, who: Identity, uuid: str) -> Lease:
    """Give a lease back: its ARQs end at once, its units when the host has taken them back. Again is no error.

    :raises NotFound: ``lease-not-found``.
    """

    def work(connection: Connection) -> Lease:
        row = store.row_by_uuid(connection, uuids.canonical(uuid) or "")
        if row is None or not sees(who, row.project_id):
            raise absent.lease(uuid)
        end(connection, row, who)
        return dataclasses.replace(store.lease(row, ()), state=store.given_back(row))

    lease = db.run(work)
    audit.note(who, "lease.release", lease.uuid)
    return lease


def end(connection: Connection, row: Record, who: Identity) -> bool:
    """Give a lease back within a transaction; False when it was already. ``row`` is one of `cantle.store.lease.row_by_uuid`."""
    if row.released_at is not None:
        return False
    moment = now()
    host.lock(connection, [row.host_id])
    before = announce.leases_now(connection, {row.uuid})
    if not store.release(connection, row, moment):
        raise LookAgain  # given back, or moved to a host that is not locked
    claim.unwant_of_lease(connection, row.id, moment, who)
    arq.remove_of_lease(connection, row.id)
    stock.refresh(connection, [row.host_id])
    audit.record(connection, who, "lease.release", thing(row))
    announce.leases_changed(connection, before, moment)
    wake(connection, host_topic(row.hostname))
    wake(connection, lease_topic(row.uuid))
    return True


def wait_lease(db: Database, who: Identity, uuid: str, *, seconds: float) -> Lease:
    """The lease as soon as nothing more happens to it by itself (active, failed, released), at the latest after so many seconds.

    :raises NotFound: ``lease-not-found``.
    """
    patience = Patience(seconds)
    with db.wakeups.waiter(lease_topic(uuids.canonical(uuid) or "")) as waiter:
        while True:
            found = get_lease(db, who, uuid)
            if found.state in SETTLED or patience.left == 0 or db.wakeups.stopped:
                return found
            waiter.wait(patience.left)


def thing(row: Record, **facts: str | None) -> Thing:
    """A lease as the audit log names it. ``row`` is one of `cantle.store.lease.row_by_uuid`."""
    said = {name: text for name, text in facts.items() if text}
    return Thing(row.project_id, row.hostname, lease_uuid=row.uuid, facts=said)


def lend(connection: Connection, terms: Terms, found: Choice) -> Lease:
    """Write the lease, its requests and its claims. The host is locked.

    :raises LookAgain: somebody took one of the units meanwhile.
    """
    values = {
        "uuid": uuids.new(),
        "profile_name": terms.asked.name,
        "project_id": terms.who.project_id,
        "owner": terms.who.user_id,
        "workload": terms.workload,
        "created_at": terms.moment,
        "expires_at": terms.expires_at,
        "on_expiry": terms.on_expiry,
    }
    lease_id = store.add(connection, {**values, "host_id": found.host_id, "times": terms.asked.request.count})
    if terms.attachment is not None:
        attachments.add(connection, lease_id, terms.attachment, start=terms.start)
    made = claim_units(connection, terms, found, lease_id, str(values["uuid"]))
    about = Thing(terms.who.project_id, found.hostname, lease_uuid=str(values["uuid"]), facts=_said(terms, len(made)))
    audit.record(connection, terms.who, "lease.create", about)
    into = terms.attachment
    lease = Lease(id=lease_id, state=LeaseState.PENDING, hostname=found.hostname, attachment=into, arqs=made, **values)  # type: ignore[arg-type]
    announce.lease_is(connection, EventType.LEASE_PENDING, lease, terms.moment)
    return lease


def claim_units(connection: Connection, terms: Terms, found: Choice, lease_id: int, uuid: str) -> tuple[Arq, ...]:
    """Write the requests and claims of a lease on its host, which is locked, and tell the host.

    :raises LookAgain: somebody took one of the units meanwhile.
    """
    units = [one for one in found.taken for _ in range(one.amount)]
    rows = [_arq(terms, one) for one in units]
    started = {"lease_id": lease_id, "profile_id": terms.asked.profile_id, "seconds": BIND_SECONDS}
    numbers = arq.add_started(connection, [{**row, **started} for row in rows])
    asker = {"project": terms.who.project_id, "by": terms.who.user_id, "request": terms.who.request_id or None}
    takes = [
        {"arq": number, "lease": lease_id, "deployable_id": one.offer.deployable_id, "now": terms.moment, **asker}
        for number, one in zip(numbers, units, strict=True)
    ]
    if claim.take(connection, takes) < len(takes):
        raise LookAgain  # somebody took a unit between our look and our lock
    stock.refresh(connection, [found.host_id])
    wake(connection, host_topic(found.hostname))
    kinds = (one.offer.kind for one in units)
    return tuple(
        Arq(id=number, lease_uuid=uuid, isolation=of_device(kind.mode, kind.labels), **row)
        for number, row, kind in zip(numbers, rows, kinds, strict=True)
    )


def _said(terms: Terms, units: int) -> dict[str, str]:
    """What a new lease is for, as facts."""
    said = {"profile": terms.asked.name, "units": str(units)}
    if terms.workload:
        said["workload"] = terms.workload
    return said if terms.expires_at is None else {**said, "expires_at": terms.expires_at.isoformat()}


def _arq(terms: Terms, one: Taken) -> dict[str, Any]:
    """A companion is asked for by nobody: it is what it is."""
    group = terms.asked.request.groups[one.group]
    return {
        "uuid": uuids.new(),
        "state": ArqState.BIND_STARTED,
        "profile_name": terms.asked.name,
        "group_id": terms.asked.request.number(one.group),
        "resource_class": one.offer.kind.resource_class,
        "required": () if one.companion else tuple(sorted(group.required)),
        "forbidden": () if one.companion else tuple(sorted(group.forbidden)),
        "project_id": terms.who.project_id,
        "hostname": one.offer.hostname,
        "device_rp_uuid": one.offer.rp_uuid,
        "created_at": terms.moment,
    }
