"""Leases: everything one workload needs, lent together, without OpenStack (design, *Scheduling*)."""

from __future__ import annotations

import dataclasses
import datetime as dt
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from cantle.engine import announce, audit, idempotency
from cantle.engine.access import project_filter, sees
from cantle.engine.clock import BIND_SECONDS, now
from cantle.errors import BadRequest, NotFound
from cantle.model import uuids
from cantle.model.arq import Arq, ArqState
from cantle.model.identity import Identity
from cantle.model.lease import Lease, LeaseState
from cantle.model.page import Page
from cantle.model.profile import MAX_UNITS, Unit, units
from cantle.scheduling.choose import Choice, choose
from cantle.scheduling.offer import Offer
from cantle.store import arq, claim, deployable, host
from cantle.store import lease as store
from cantle.store.database import Database, host_topic, lease_topic, wake
from cantle.store.faults import LookAgain
from cantle.store.service import why_not
from cantle.store.types import Record
from cantle.store.wakeups import Patience

#: States in which nothing more happens by itself.
SETTLED = frozenset({LeaseState.ACTIVE, LeaseState.FAILED, LeaseState.RELEASED})


def create_lease(
    db: Database,
    who: Identity,
    *,
    profile_name: str,
    hostname: str | None = None,
    count: int = 1,
    workload: str = "",
    expires_at: dt.datetime | None = None,
    once: idempotency.Once[Lease] | None = None,
) -> Lease:
    """Choose a host and its units for ``count`` times the profile, claim them and tell the host. The lease is pending then.

    :param hostname: the only host that may be chosen.
    :param workload: who will use it, in the caller's words: at most 255 characters.
    :param expires_at: when it is given back by itself; aware, in the future.
    :param once: see `cantle.engine.idempotency.run`, with what that raises.
    :raises BadRequest: ``bad-lease``.
    :raises NotFound: ``profile-not-found``, ``host-not-found``.
    :raises NoCapacity: ``no-capacity``; the message says of each host why not, ``details["hosts"]`` by name.
    """
    _check(count, workload, expires_at)

    def work(connection: Connection) -> Lease:
        rows = deployable.offered(connection, profile_name)
        if not rows:
            raise NotFound("profile-not-found", f"There is no device profile {profile_name!r}.", ref=profile_name)
        asked = units(rows[0].groups) * count
        if len(asked) > MAX_UNITS:
            raise BadRequest(
                "bad-lease",
                f"{count} times {profile_name} is {len(asked)} accelerators; at most {MAX_UNITS} are possible.",
            )
        offers = [_offer(row) for row in rows if row.id is not None and hostname in (None, row.hostname)]
        if not offers and hostname is not None and host.find(connection, hostname) is None:
            raise NotFound("host-not-found", f"There is no host {hostname}.", hostname=hostname)
        choice = choose(profile_name, rows[0].groups, count, offers)
        host.lock(connection, [choice.host_id])
        terms = _Terms(who, rows[0].profile_id, profile_name, workload, expires_at, now())
        return _lend(connection, terms, choice)

    lease = idempotency.run(db, work, once)
    audit.note(who, "lease.create", lease.uuid, f"on {lease.hostname}")
    return lease


def get_lease(db: Database, who: Identity, uuid: str) -> Lease:
    """One lease of the caller's.

    :raises NotFound: ``lease-not-found``, also for what is no uuid.
    """
    with db.read() as connection:
        found = store.by_uuid(connection, uuids.canonical(uuid) or "")
    if found is None or not sees(who, found.project_id):
        raise _missing(uuid)
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
            raise _missing(uuid)
        end(connection, row)
        return dataclasses.replace(store.lease(row, ()), state=store.state(True, row.claimed, ()))

    lease = db.run(work)
    audit.note(who, "lease.release", lease.uuid)
    return lease


def end(connection: Connection, row: Record, *, expired: bool = False) -> bool:
    """Give a lease back within a transaction; False when it was already. ``row`` is one of `cantle.store.lease.row_by_uuid`.

    :param expired: because its time is over.
    """
    if row.released_at is not None:
        return False
    moment = now()
    host.lock(connection, [row.host_id])
    before = announce.leases_now(connection, {row.uuid})
    if not store.release(connection, row.id, moment):
        return False
    claim.unwant_of_lease(connection, row.id, moment)
    arq.remove_of_lease(connection, row.id)
    if expired:
        announce.lease_expired(connection, row.uuid, moment)
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


def _check(count: int, workload: str, expires_at: dt.datetime | None) -> None:
    if not 1 <= count <= MAX_UNITS:
        raise BadRequest("bad-lease", f"count is {count}; give a number from 1 to {MAX_UNITS}.")
    if len(workload) > 255:
        raise BadRequest("bad-lease", f"workload is {len(workload)} characters long; at most 255 are kept.")
    if expires_at is None:
        return
    if expires_at.tzinfo is None:
        raise BadRequest(
            "bad-lease", f"expires_at is {expires_at.isoformat()}, which names no time zone; add Z or an offset."
        )
    if expires_at <= now():
        raise BadRequest("bad-lease", f"expires_at is {expires_at.isoformat()}, which is over already.")


def _offer(row: Record) -> Offer:
    return Offer(
        deployable_id=row.id,
        rp_uuid=row.rp_uuid,
        host_id=row.host_id,
        hostname=row.hostname,
        address=row.device_address,
        resource_class=row.resource_class,
        traits=frozenset(row.traits),
        used=row.used,
        free=row.free,
        out_of_service=why_not(row),
    )


@dataclass(frozen=True, slots=True)
class _Terms:
    """What every row of a new lease shares."""

    who: Identity
    profile_id: int
    profile_name: str
    workload: str
    expires_at: dt.datetime | None
    moment: dt.datetime


def _lend(connection: Connection, terms: _Terms, choice: Choice) -> Lease:
    values = {
        "uuid": uuids.new(),
        "profile_name": terms.profile_name,
        "project_id": terms.who.project_id,
        "owner": terms.who.user_id,
        "workload": terms.workload,
        "created_at": terms.moment,
        "expires_at": terms.expires_at,
    }
    lease_id = store.add(connection, {**values, "host_id": choice.host_id})
    rows = [_arq(terms, unit, offer) for unit, offer in choice.units]
    started = {"lease_id": lease_id, "profile_id": terms.profile_id, "seconds": BIND_SECONDS}
    numbers = arq.add_started(connection, [{**row, **started} for row in rows])
    takes = [
        {"arq": number, "lease": lease_id, "deployable_id": offer.deployable_id, "now": terms.moment}
        for number, (_, offer) in zip(numbers, choice.units, strict=True)
    ]
    if claim.take(connection, takes) < len(takes):
        raise LookAgain  # somebody took a unit between our look and our lock
    wake(connection, host_topic(choice.hostname))
    made = tuple(
        Arq(id=number, lease_uuid=str(values["uuid"]), **row) for number, row in zip(numbers, rows, strict=True)
    )
    return Lease(id=lease_id, state=LeaseState.PENDING, hostname=choice.hostname, arqs=made, **values)  # type: ignore[arg-type]


def _arq(terms: _Terms, unit: Unit, offer: Offer) -> dict[str, Any]:
    return {
        "uuid": uuids.new(),
        "state": ArqState.BIND_STARTED,
        "profile_name": terms.profile_name,
        "group_id": unit.group_id,
        "resource_class": unit.resource_class,
        "required": unit.required,
        "forbidden": unit.forbidden,
        "project_id": terms.who.project_id,
        "hostname": offer.hostname,
        "device_rp_uuid": offer.rp_uuid,
        "created_at": terms.moment,
    }


def _missing(uuid: str) -> NotFound:
    return NotFound("lease-not-found", f"There is no lease {uuid}.", uuid=uuid)
