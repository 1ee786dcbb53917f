"""Accelerator requests, with the unit that is claimed for each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    null,
    or_,
    select,
    update,
)

from cantle.model.arq import BINDABLE, Arq, ArqState
from cantle.model.page import Page
from cantle.store.paging import first_page, numbers, window
from cantle.store.prepared import Prepared
from cantle.store.tables import arqs, attach_handles, claims, hosts, instance_owners, leases
from cantle.store.types import Record, database_now

SORT_KEYS = {
    "created_at": arqs.c.created_at,
    "uuid": arqs.c.uuid,
    "state": arqs.c.state,
    "device_profile_name": arqs.c.profile_name,
    "project_id": func.coalesce(arqs.c.project_id, ""),
    "instance_uuid": func.coalesce(arqs.c.instance_uuid, ""),
    "hostname": func.coalesce(arqs.c.hostname, ""),
}

#: What an event about an ARQ says of it.
OF_EVENT = (
    arqs.c.id.label("arq_id"),
    arqs.c.uuid.label("arq_uuid"),
    arqs.c.profile_name,
    arqs.c.project_id,
    arqs.c.hostname,
    arqs.c.instance_uuid,
    arqs.c.bind_serial,
)

#: Its failure is being announced: the compute service is shown that the bind is still on the way.
_ANNOUNCING: ColumnElement[bool] = and_(arqs.c.announced_until.is_not(None), arqs.c.announced_until > database_now())
_ANNOUNCED = bindparam("announced", type_=Float())
#: In so many seconds; NULL for 0.
_ANNOUNCED_UNTIL: ColumnElement[dt.datetime | None] = case((_ANNOUNCED > 0, database_now(_ANNOUNCED)), else_=null())

_STATES = {state.value: state for state in ArqState}

_NOT_SHOWN = ("profile_id", "bind_serial", "deadline", "announced_until", "nth_of_instance")
_HOLDING = and_(claims.c.arq_id == arqs.c.id, claims.c.wanted)
_ARQS = select(
    *(column for column in arqs.c if column.key not in _NOT_SHOWN),
    _ANNOUNCING.label("announcing"),
    leases.c.uuid.label("lease_uuid"),
    attach_handles.c.uuid.label("handle_uuid"),
    attach_handles.c.attach_type,
    attach_handles.c.attach_info,
).select_from(
    arqs.outerjoin(claims, _HOLDING)
    .outerjoin(attach_handles, attach_handles.c.id == claims.c.attach_handle_id)
    .outerjoin(leases, leases.c.id == arqs.c.lease_id)
)
_BY_UUID = Prepared(_ARQS.where(arqs.c.uuid == bindparam("uuid")))
_OF_INSTANCE = Prepared(
    _ARQS.where(arqs.c.instance_uuid == bindparam("instance")).order_by(arqs.c.created_at, arqs.c.id)
)
_OF_LEASE = _ARQS.where(arqs.c.lease_id == bindparam("of_lease")).order_by(arqs.c.id)

_ADD = insert(arqs).returning(arqs.c.id, arqs.c.uuid)
_ADD_STARTED = _ADD.values(deadline=database_now(bindparam("seconds")))

#: The ARQs to be bound, all others of the same instances, and the remembered owner of each instance.
_TO_BIND = Prepared(
    select(
        arqs.c.id,
        arqs.c.uuid,
        arqs.c.state,
        arqs.c.lease_id,
        arqs.c.project_id,
        arqs.c.hostname,
        arqs.c.device_rp_uuid,
        arqs.c.instance_uuid,
        arqs.c.resource_class,
        arqs.c.required,
        arqs.c.forbidden,
        arqs.c.bind_serial,
        instance_owners.c.instance_uuid.label("owned_instance"),
        instance_owners.c.project_id.label("owner"),
    )
    .select_from(
        arqs.outerjoin(instance_owners, instance_owners.c.instance_uuid.in_(bindparam("instances", expanding=True)))
    )
    .where(
        or_(
            arqs.c.uuid.in_(bindparam("uuids", expanding=True)),
            arqs.c.instance_uuid.in_(bindparam("instances", expanding=True)),
        )
    ),
    lists=("uuids", "instances"),
)

#: ARQs to be unbound or deleted, with the name of the host on which each holds a unit.
_TO_PART = select(
    arqs.c.id,
    arqs.c.uuid,
    arqs.c.state,
    arqs.c.project_id,
    arqs.c.instance_uuid,
    arqs.c.lease_id,
    hosts.c.hostname.label("held_on"),
).select_from(arqs.outerjoin(claims, _HOLDING).outerjoin(hosts, hosts.c.id == claims.c.host_id))
_TO_PART_BY_UUID = Prepared(_TO_PART.where(arqs.c.uuid.in_(bindparam("uuids", expanding=True))), lists=("uuids",))
_TO_PART_OF_INSTANCE = Prepared(_TO_PART.where(arqs.c.instance_uuid == bindparam("instance")))

_START = Prepared(
    update(arqs)
    .where(arqs.c.id == bindparam("arq_id"), or_(*(arqs.c.state == state for state in sorted(BINDABLE))))
    .values(
        state=ArqState.BIND_STARTED,
        hostname=bindparam("to_hostname"),
        device_rp_uuid=bindparam("to_rp"),
        instance_uuid=bindparam("to_instance"),
        nth_of_instance=bindparam("nth"),
        project_id=bindparam("to_project"),
        deadline=database_now(bindparam("seconds")),
        bind_serial=arqs.c.bind_serial + 1,
        announced_until=None,
        reason_code=None,
        reason=None,
        updated_at=bindparam("now"),
    )
)
_SETTLE = Prepared(
    update(arqs)
    .where(arqs.c.id == bindparam("arq_id"), arqs.c.state == bindparam("from_state"))
    .values(
        state=bindparam("to_state"),
        deadline=None,
        announced_until=_ANNOUNCED_UNTIL,
        reason_code=bindparam("code"),
        reason=bindparam("why"),
        updated_at=bindparam("now"),
    )
)
#: Not bound since it was read: whoever held a unit then is held still by his host's lock, but a bind of the others is not. The state is
#: asked of the row itself, for that is what a database looks at again after it has waited for somebody's bind.
_UNTOUCHED = and_(
    arqs.c.id.in_(bindparam("ids", expanding=True)),
    or_(
        and_(arqs.c.state != ArqState.BIND_STARTED, arqs.c.state != ArqState.BOUND),
        arqs.c.id.in_(bindparam("holding", expanding=True)),
    ),
)
_PART = Prepared(
    update(arqs)
    .where(_UNTOUCHED)
    .values(
        state=ArqState.UNBOUND,
        hostname=None,
        device_rp_uuid=None,
        instance_uuid=None,
        nth_of_instance=None,
        deadline=None,
        announced_until=None,
        reason_code=None,
        reason=None,
        updated_at=bindparam("now"),
    ),
    lists=("ids", "holding"),
)
_REMOVE = Prepared(delete(arqs).where(_UNTOUCHED), lists=("ids", "holding"))
_OVERDUE = (
    select(*OF_EVENT, claims.c.host_id, hosts.c.hostname.label("held_on"), leases.c.uuid.label("lease_uuid"))
    .select_from(
        arqs.join(claims, _HOLDING)
        .join(hosts, hosts.c.id == claims.c.host_id)
        .outerjoin(leases, leases.c.id == arqs.c.lease_id)
    )
    .where(arqs.c.deadline <= database_now())
    .order_by(arqs.c.deadline)
    .limit(bindparam("most"))
)
_EXPIRE = (
    update(arqs)
    .where(arqs.c.id == bindparam("arq_id"), arqs.c.state == ArqState.BIND_STARTED, arqs.c.deadline <= database_now())
    .values(
        state=ArqState.BIND_FAILED,
        deadline=None,
        announced_until=_ANNOUNCED_UNTIL,
        reason_code=bindparam("code"),
        reason=bindparam("why"),
        updated_at=bindparam("now"),
    )
)


#: Nobody has touched it for so long, by the times written on it.
_LEFT: ColumnElement[bool] = and_(
    or_(*(arqs.c.state == state for state in sorted(BINDABLE))),
    arqs.c.lease_id.is_(None),
    func.coalesce(arqs.c.updated_at, arqs.c.created_at) < database_now(bindparam("ago")),
)
_ALL_LEFT = select(arqs.c.id, arqs.c.uuid, arqs.c.project_id).where(_LEFT).order_by(arqs.c.id).limit(bindparam("most"))
_REMOVE_LEFT = delete(arqs).where(arqs.c.id.in_(bindparam("ids", expanding=True)), _LEFT)


def by_uuid(connection: Connection, uuid: str) -> Arq | None:
    """One ARQ."""
    row = _BY_UUID.first(connection, {"uuid": uuid})
    return None if row is None else arq(row)


def of_instance(connection: Connection, instance: str) -> list[Arq]:
    """All ARQs of one instance, oldest first."""
    return [arq(row) for row in _OF_INSTANCE.all(connection, {"instance": instance})]


def of_lease(connection: Connection, lease_id: int) -> list[Arq]:
    """The ARQs of a lease, in the order of its profile's groups."""
    return [arq(row) for row in connection.execute(_OF_LEASE, {"of_lease": lease_id})]


def of_leases(connection: Connection, lease_ids: Select[tuple[int]]) -> list[tuple[int, Arq]]:
    """Number of the lease and ARQ, for all leases that a query finds."""
    wanted = lease_ids.subquery()  # joined: MariaDB takes no LIMIT inside IN
    query = _ARQS.join(wanted, wanted.c.id == arqs.c.lease_id).order_by(arqs.c.id)
    return [(row.lease_id, arq(row)) for row in connection.execute(query)]


def listed(
    connection: Connection,
    *,
    project: str | None,
    instance: str | None,
    states: Sequence[ArqState] | None,
    page: Page | None,
    hostname: str | None = None,
) -> list[Arq]:
    """ARQs of one project (None: of all), of one instance, in some states, of one host."""
    given: dict[str, Any] = {"project": project, "instance": instance, "states": states, "hostname": hostname}
    parameters = {name: value for name, value in given.items() if value is not None}
    page = page or Page()
    if page.marker is None:
        kept = replace(page, limit=page.limit and 1)  # one statement for pages of any length
        return [arq(row) for row in _first(tuple(parameters), kept).all(connection, {**parameters, "most": page.limit})]
    query = window(connection, _listing(tuple(parameters)), page, arqs, SORT_KEYS, parameters=parameters)
    return [arq(row) for row in connection.execute(query, parameters)]


@lru_cache(maxsize=256)
def _first(by: tuple[str, ...], page: Page) -> Prepared:
    lists = ("states",) if "states" in by else ()
    return Prepared(first_page(_listing(by), page, arqs, SORT_KEYS), lists=lists)


def _listing(by: tuple[str, ...]) -> Select[Any]:
    """The query of `listed`, with parameters ``project``, ``instance``, ``states`` and ``hostname`` as far as they count."""
    query = _ARQS
    if "project" in by:
        query = query.where(arqs.c.project_id == bindparam("project"))
    if "instance" in by:
        query = query.where(arqs.c.instance_uuid == bindparam("instance"))
    if "states" in by:
        # A failure that is being announced is shown as a bind on the way, so it is none of the states asked for.
        query = query.where(arqs.c.state.in_(bindparam("states", expanding=True)), ~_ANNOUNCING)
    if "hostname" in by:
        query = query.where(arqs.c.hostname == bindparam("hostname"))
    return query


def add(connection: Connection, rows: Sequence[dict[str, Any]]) -> list[int]:
    """New ARQs; their numbers in the same order."""
    return numbers(connection, _ADD, rows)


def add_started(connection: Connection, rows: Sequence[dict[str, Any]]) -> list[int]:
    """New ARQs that are being bound from the start, each with ``seconds`` for its host to answer; their numbers in the same order."""
    return numbers(connection, _ADD_STARTED, rows)


def to_bind(connection: Connection, uuids: Sequence[str], instances: Sequence[str]) -> Sequence[Record]:
    """What a bind looks at, of the ARQs named and of all ARQs of these instances, each once per remembered owner (``owned_instance``,
    ``owner``)."""
    return _TO_BIND.all(connection, {"uuids": uuids, "instances": instances})


def start(connection: Connection, rows: Sequence[dict[str, Any]]) -> int:
    """Move ARQs that may be bound to BindStarted. How many were moved: fewer than given when somebody else was quicker.

    :raises IntegrityError: another call has just bound ARQs for one of the instances (``nth``, by instance).
    """
    return _START.change(connection, *rows)


def settle(connection: Connection, rows: Sequence[dict[str, Any]]) -> int:
    """Move ARQs from one state to another; how many were still in it. ``announced``: seconds for which a failure is announced, else 0."""
    return _SETTLE.change(connection, *rows)


def to_part(connection: Connection, uuids: Sequence[str]) -> Sequence[Record]:
    """id, uuid, state, project_id, instance_uuid, lease_id, held_on of the ARQs named."""
    return _TO_PART_BY_UUID.all(connection, {"uuids": uuids})


def to_part_of_instance(connection: Connection, instance: str) -> Sequence[Record]:
    """The same of all ARQs of an instance."""
    return _TO_PART_OF_INSTANCE.all(connection, {"instance": instance})


def part(connection: Connection, ids: Sequence[int], holding: Sequence[int], now: dt.datetime) -> int:
    """Make ARQs Unbound: they name no host, provider or instance any more. How many were: fewer than given when one that is not in
    ``holding`` was bound meanwhile, or another has gone."""
    return _PART.change(connection, {"ids": ids, "holding": holding, "now": now})


def remove(connection: Connection, ids: Sequence[int], holding: Sequence[int]) -> int:
    """Delete ARQs; their claims stay. How many were, as for `part`."""
    return _REMOVE.change(connection, {"ids": ids, "holding": holding})


def remove_of_lease(connection: Connection, lease_id: int) -> None:
    """Delete the ARQs of a lease; their claims stay."""
    connection.execute(delete(arqs).where(arqs.c.lease_id == lease_id))


def left(connection: Connection, seconds: float, most: int) -> Sequence[Record]:
    """id, uuid, project_id of ARQs that are bound to nothing and that nobody has touched for so long."""
    return connection.execute(_ALL_LEFT, {"ago": -seconds, "most": most}).all()


def remove_left(connection: Connection, ids: Sequence[int], seconds: float) -> int:
    """Delete these, as far as they still are so; how many were."""
    return connection.execute(_REMOVE_LEFT, {"ids": list(ids), "ago": -seconds}).rowcount


def overdue(connection: Connection, most: int) -> Sequence[Record]:
    """`OF_EVENT`, host_id, held_on, lease_uuid of ARQs whose host did not answer in time."""
    return connection.execute(_OVERDUE, {"most": most}).all()


def expire(connection: Connection, arq_id: int, code: str, why: str, now: dt.datetime, *, announced: float) -> bool:
    """BindStarted past its deadline becomes BindFailed, announced for so many seconds; False when it no longer is."""
    values = {"arq_id": arq_id, "code": code, "why": why, "now": now, "announced": announced}
    return connection.execute(_EXPIRE, values).rowcount == 1


def arq(row: Record) -> Arq:
    """The value of a row of `_ARQS`. The unit is shown once the host has it ready."""
    bound = row.state == ArqState.BOUND and row.handle_uuid is not None
    return Arq(
        id=row.id,
        uuid=row.uuid,
        state=_STATES[row.state],
        profile_name=row.profile_name,
        group_id=row.group_id,
        resource_class=row.resource_class,
        project_id=row.project_id,
        created_at=row.created_at,
        updated_at=row.updated_at,
        required=row.required,
        forbidden=row.forbidden,
        hostname=row.hostname,
        device_rp_uuid=row.device_rp_uuid,
        instance_uuid=row.instance_uuid,
        attach_handle_type=row.attach_type if bound else "",
        attach_handle_uuid=row.handle_uuid if bound else None,
        attach_handle_info=row.attach_info if bound else {},
        lease_uuid=row.lease_uuid,
        reason_code=row.reason_code,
        reason=row.reason,
        announcing=bool(row.announcing),
    )
