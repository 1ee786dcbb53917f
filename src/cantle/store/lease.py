"""Leases, with what their state is read off."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, exists, func, insert, select, update

from cantle.model.arq import Arq, ArqState
from cantle.model.lease import Lease, LeaseState
from cantle.model.page import Page
from cantle.store import arq
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

_CLAIMED = (
    select(func.count()).select_from(claims).where(claims.c.lease_id == leases.c.id).scalar_subquery().label("claimed")
)
_LEASES = select(leases, hosts.c.hostname, _CLAIMED).join(hosts, hosts.c.id == leases.c.host_id)
_BY_UUID = _LEASES.where(leases.c.uuid == bindparam("uuid"))
_EXPIRED = (
    select(leases.c.uuid)
    .where(leases.c.expires_at <= database_now(), leases.c.released_at.is_(None))
    .order_by(leases.c.expires_at)
    .limit(bindparam("most"))
)
_RELEASE = (
    update(leases)
    .where(leases.c.id == bindparam("lease_id"), leases.c.released_at.is_(None))
    .values(released_at=database_now(), updated_at=bindparam("now"))
)

#: Released so long ago, and nothing is left of it.
_PAST = and_(
    leases.c.released_at < database_now(bindparam("ago")),
    ~exists().where(claims.c.lease_id == leases.c.id),
    ~exists().where(arqs.c.lease_id == leases.c.id),
)
_ALL_PAST = select(leases.c.id, leases.c.uuid).where(_PAST).order_by(leases.c.id).limit(bindparam("most"))
_REMOVE_PAST = delete(leases).where(leases.c.id.in_(bindparam("ids", expanding=True)), _PAST)


def row_by_uuid(connection: Connection, uuid: str) -> Record | None:
    """One lease's row, with hostname and the number of its claims."""
    return connection.execute(_BY_UUID, {"uuid": uuid}).first()


def by_uuid(connection: Connection, uuid: str) -> Lease | None:
    """One lease with its ARQs."""
    row = row_by_uuid(connection, uuid)
    return None if row is None else lease(row, arq.of_lease(connection, row.id))


def by_uuids(connection: Connection, uuids: Sequence[str]) -> dict[str, Lease]:
    """Leases with their ARQs."""
    query = _LEASES.where(leases.c.uuid.in_(list(uuids)))
    found: dict[int, list[Arq]] = defaultdict(list)
    for lease_id, one in arq.of_leases(connection, query.with_only_columns(leases.c.id)):
        found[lease_id].append(one)
    return {row.uuid: lease(row, found[row.id]) for row in connection.execute(query).all()}


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
    return [lease(row, found[row.id]) for row in rows]


def add(connection: Connection, values: dict[str, Any]) -> int:
    """A new lease; its number."""
    number = connection.execute(insert(leases), values).inserted_primary_key
    assert number is not None  # noqa: S101 - every row has one
    return int(number[0])


def release(connection: Connection, lease_id: int, now: dt.datetime) -> bool:
    """Mark a lease given back; False when it was already."""
    return connection.execute(_RELEASE, {"lease_id": lease_id, "now": now}).rowcount == 1


def past(connection: Connection, days: float, most: int) -> Sequence[Record]:
    """id, uuid of leases that were released so many days ago and whose units are all back."""
    return connection.execute(_ALL_PAST, {"ago": -86400.0 * days, "most": most}).all()


def remove_past(connection: Connection, ids: Sequence[int], days: float) -> int:
    """Delete these, as far as they are so; how many were."""
    return connection.execute(_REMOVE_PAST, {"ids": list(ids), "ago": -86400.0 * days}).rowcount


def expired(connection: Connection, most: int) -> list[str]:
    """Uuids of leases whose time is over and that nobody gave back."""
    return list(connection.execute(_EXPIRED, {"most": most}).scalars())


def lease(row: Record, arqs: Sequence[Arq]) -> Lease:
    """The value of a row with its ARQs."""
    return Lease(
        id=row.id,
        uuid=row.uuid,
        state=state(row.released_at is not None, row.claimed, [one.state for one in arqs]),
        profile_name=row.profile_name,
        project_id=row.project_id,
        owner=row.owner,
        workload=row.workload,
        hostname=row.hostname,
        created_at=row.created_at,
        updated_at=row.updated_at,
        expires_at=row.expires_at,
        arqs=tuple(arqs),
    )


def state(released: bool, claimed: int, states: Sequence[ArqState]) -> LeaseState:
    """Where a loan is."""
    if released:
        return LeaseState.RELEASING if claimed else LeaseState.RELEASED
    if any(one is ArqState.BIND_FAILED for one in states):
        return LeaseState.FAILED
    if all(one is ArqState.BOUND for one in states):
        return LeaseState.ACTIVE
    return LeaseState.PENDING
