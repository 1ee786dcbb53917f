"""Leases, with what their state is read off."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Update, and_, bindparam, delete, exists, func, insert, select, update

from cantle.model.arq import Arq, ArqState
from cantle.model.lease import FREED, Lease, LeaseState, OnExpiry
from cantle.model.page import Page
from cantle.store import arq, attachment, claim
from cantle.store.attachment_table import attachments
from cantle.store.paging import narrowed, window
from cantle.store.tables import arqs, claims, hosts, leases
from cantle.store.types import Record, database_now

SORT_KEYS = {
    "created_at": leases.c.created_at,
    "uuid": leases.c.uuid,
    "workload": leases.c.workload,
    "profile_name": leases.c.profile_name,
    "hostname": hosts.c.hostname,
}

#: What a list can be narrowed by.
FILTERS = {"hostname": hosts.c.hostname, "workload": leases.c.workload, "profile_name": leases.c.profile_name}

_UNITS = select(func.count()).select_from(claims).where(claims.c.lease_id == leases.c.id)
_CLAIMED = _UNITS.scalar_subquery().label("claimed")
_LEASES = select(
    leases,
    hosts.c.hostname,
    attachments.c.kind.label("guest_kind"),
    attachments.c.name.label("guest_name"),
    _CLAIMED,
    *(_UNITS.where(claims.c.stage == stage).scalar_subquery().label(stage) for stage in sorted(FREED)),
).select_from(
    leases.join(hosts, hosts.c.id == leases.c.host_id).outerjoin(attachments, attachments.c.lease_id == leases.c.id)
)
_BY_UUID = _LEASES.where(leases.c.uuid == bindparam("uuid"))
_ends = leases.c.expires_at
_STANDING = leases.c.released_at.is_(None)
_ENDING = (
    select(leases.c.uuid)
    .where(_ends <= database_now(bindparam("seconds")), _STANDING, leases.c.warned_at.is_(None))
    .order_by(_ends)
    .limit(bindparam("most"))
)
#: Announced, over, and not yet done.
_OVER = and_(_ends <= database_now(), _STANDING, leases.c.warned_at.is_not(None), leases.c.expired_at.is_(None))
_EXPIRED = select(leases.c.uuid).where(_OVER).order_by(_ends).limit(bindparam("most"))
_SAME = and_(leases.c.id == bindparam("lease_id"), _STANDING, _ends == bindparam("ends"))
_WARN = update(leases).where(_SAME, leases.c.warned_at.is_(None)).values(warned_at=database_now())
_MARK_EXPIRED = update(leases).where(_SAME, _OVER).values(expired_at=database_now())
_RENEW = (
    update(leases)
    .where(leases.c.id == bindparam("lease_id"), _STANDING)
    .values(
        expires_at=bindparam("ends"),
        on_expiry=bindparam("then"),
        warned_at=None,
        expired_at=None,
        updated_at=bindparam("now"),
    )
)
#: Still on the host that was locked for it, which may be another by now.
_ON_HOST = and_(
    leases.c.id == bindparam("lease_id"), leases.c.host_id == bindparam("on_host"), leases.c.released_at.is_(None)
)
_MOVE = update(leases).where(_ON_HOST).values(host_id=bindparam("to_host"), updated_at=bindparam("now"))
_RELEASE = update(leases).where(_ON_HOST).values(released_at=database_now(), updated_at=bindparam("now"))

#: Released so long ago, and nothing is left of it.
_PAST = and_(
    leases.c.released_at < database_now(bindparam("ago")),
    ~exists().where(claims.c.lease_id == leases.c.id),
    ~exists().where(arqs.c.lease_id == leases.c.id),
)
_ALL_PAST = (
    select(leases.c.id, leases.c.uuid, leases.c.project_id, hosts.c.hostname)
    .join(hosts, hosts.c.id == leases.c.host_id)
    .where(_PAST)
    .order_by(leases.c.id)
    .limit(bindparam("most"))
)
_REMOVE_PAST = delete(leases).where(leases.c.id.in_(bindparam("ids", expanding=True)), _PAST)


def row_by_uuid(connection: Connection, uuid: str) -> Record | None:
    """One lease's row, with hostname and the number of its claims: all (``claimed``), those being cleaned, those in quarantine."""
    return connection.execute(_BY_UUID, {"uuid": uuid}).first()


def by_uuid(connection: Connection, uuid: str) -> Lease | None:
    """One lease with its ARQs."""
    row = row_by_uuid(connection, uuid)
    return None if row is None else lease(row, arq.of_lease(connection, row.id), *_reasons(connection, [row]).values())


def by_uuids(connection: Connection, uuids: Sequence[str]) -> dict[str, Lease]:
    """Leases with their ARQs."""
    query = _LEASES.where(leases.c.uuid.in_(list(uuids)))
    found: dict[int, list[Arq]] = defaultdict(list)
    for lease_id, one in arq.of_leases(connection, query.with_only_columns(leases.c.id)):
        found[lease_id].append(one)
    rows = connection.execute(query).all()
    why = _reasons(connection, rows)
    return {row.uuid: lease(row, found[row.id], why.get(row.id, ())) for row in rows}


def listed(
    connection: Connection,
    where: Mapping[str, object],
    *,
    project: str | None,
    include_released: bool,
    page: Page | None,
) -> list[Lease]:
    """Leases of one project (None: of all) whose `FILTERS` are exactly these, with their ARQs."""
    query = narrowed(_LEASES, FILTERS, where)
    if project is not None:
        query = query.where(leases.c.project_id == project)
    if not include_released:
        query = query.where(leases.c.released_at.is_(None) | (_CLAIMED > 0))
    query = window(connection, query, page, leases, SORT_KEYS)
    rows = connection.execute(query).all()
    found: dict[int, list[Arq]] = defaultdict(list)
    for lease_id, one in arq.of_leases(connection, query.with_only_columns(leases.c.id)):
        found[lease_id].append(one)
    why = _reasons(connection, rows)
    return [lease(row, found[row.id], why.get(row.id, ())) for row in rows]


def _reasons(connection: Connection, rows: Sequence[Record]) -> dict[int, tuple[str, ...]]:
    """Why units of leases that were given back are not free, by number of the lease. Nothing is asked where none was given back."""
    open_ones = [row.id for row in rows if row.released_at is not None and row.claimed]
    found: dict[int, tuple[str, ...]] = {}
    for row in claim.reasons(connection, open_ones) if open_ones else ():
        found[row.lease_id] = (*found.get(row.lease_id, ()), row.reason)
    return found


def add(connection: Connection, values: dict[str, Any]) -> int:
    """A new lease; its number."""
    number = connection.execute(insert(leases), values).inserted_primary_key
    assert number is not None  # noqa: S101 - every row has one
    return int(number[0])


def move(connection: Connection, row: Record, host_id: int, now: dt.datetime) -> bool:
    """The lease is on another host from now on; False when it was given back meanwhile, or is no more on the host ``row`` says."""
    values = {"lease_id": row.id, "on_host": row.host_id, "to_host": host_id, "now": now}
    return connection.execute(_MOVE, values).rowcount == 1


def release(connection: Connection, row: Record, now: dt.datetime) -> bool:
    """Mark a lease given back; False when it was already, or is no more on the host ``row`` says."""
    return connection.execute(_RELEASE, {"lease_id": row.id, "on_host": row.host_id, "now": now}).rowcount == 1


def past(connection: Connection, days: float, most: int) -> Sequence[Record]:
    """id, uuid, project_id, hostname of leases that were released so many days ago and whose units are all back."""
    return connection.execute(_ALL_PAST, {"ago": -86400.0 * days, "most": most}).all()


def remove_past(connection: Connection, ids: Sequence[int], days: float) -> int:
    """Delete these, as far as they are so; how many were."""
    return connection.execute(_REMOVE_PAST, {"ids": list(ids), "ago": -86400.0 * days}).rowcount


def expired(connection: Connection, most: int) -> list[str]:
    """Uuids of leases whose time is over, that were announced, that nobody gave back, and of which nothing was made yet."""
    return list(connection.execute(_EXPIRED, {"most": most}).scalars())


def ending(connection: Connection, seconds: float, most: int) -> list[str]:
    """Uuids of leases that end within so many seconds and were not announced."""
    return list(connection.execute(_ENDING, {"seconds": seconds, "most": most}).scalars())


def warned(connection: Connection, row: Record) -> bool:
    """Mark a lease announced; False when it was already, or is no more as ``row`` says."""
    return _mark(connection, _WARN, row)


def mark_expired(connection: Connection, row: Record) -> bool:
    """Mark that what happens at a lease's end was done; False when it was already, or the lease is no more as ``row`` says."""
    return _mark(connection, _MARK_EXPIRED, row)


def _mark(connection: Connection, statement: Update, row: Record) -> bool:
    return connection.execute(statement, {"lease_id": row.id, "ends": row.expires_at}).rowcount == 1


def renew(connection: Connection, lease_id: int, ends: dt.datetime | None, then: str, now: dt.datetime) -> bool:
    """Give a lease another end; False when it was given back."""
    values = {"lease_id": lease_id, "ends": ends, "then": then, "now": now}
    return connection.execute(_RENEW, values).rowcount == 1


def lease(row: Record, arqs: Sequence[Arq], reasons: Sequence[str] = ()) -> Lease:
    """The value of a row with its ARQs."""
    return Lease(
        id=row.id,
        uuid=row.uuid,
        state=given_back(row) if row.released_at is not None else state([one.state for one in arqs]),
        profile_name=row.profile_name,
        project_id=row.project_id,
        owner=row.owner,
        workload=row.workload,
        hostname=row.hostname,
        created_at=row.created_at,
        updated_at=row.updated_at,
        expires_at=row.expires_at,
        on_expiry=OnExpiry(row.on_expiry),
        expired_at=row.expired_at,
        attachment=attachment.attachment(row),
        reasons=tuple(reasons),
        arqs=tuple(arqs),
    )


def state(states: Sequence[ArqState]) -> LeaseState:
    """Where a loan is that was not given back, by the states of its ARQs."""
    if any(one is ArqState.BIND_FAILED for one in states):
        return LeaseState.FAILED
    if all(one is ArqState.BOUND for one in states):
        return LeaseState.ACTIVE
    return LeaseState.PENDING


def given_back(row: Record) -> LeaseState:
    """Where a loan is that was given back. ``row`` is one of `row_by_uuid`."""
    if not row.claimed:
        return LeaseState.RELEASED
    if row.quarantined:
        return LeaseState.QUARANTINED
    return LeaseState.CLEANING if row.cleaning == row.claimed else LeaseState.RELEASING
