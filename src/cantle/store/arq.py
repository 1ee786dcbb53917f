"""Accelerator requests, with the unit that is claimed for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
)

from cantle.model.arq import Arq, ArqState
from cantle.model.isolation import Isolation, of_device
from cantle.model.page import Page
from cantle.store.paging import first_page, numbers, window
from cantle.store.prepared import Prepared
from cantle.store.tables import arqs, attach_handles, claims, deployables, devices, leases
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
_STATES = {state.value: state for state in ArqState}

_NOT_SHOWN = ("profile_id", "bind_serial", "deadline", "announced_until", "nth_of_instance")
#: The claim that an ARQ holds its unit by.
HOLDING = and_(claims.c.arq_id == arqs.c.id, claims.c.wanted)
_COLUMNS = (
    *(column for column in arqs.c if column.key not in _NOT_SHOWN),
    _ANNOUNCING.label("announcing"),
    leases.c.uuid.label("lease_uuid"),
    attach_handles.c.uuid.label("handle_uuid"),
    attach_handles.c.attach_type,
    attach_handles.c.attach_info,
)
_JOINED = (
    arqs.outerjoin(claims, HOLDING)
    .outerjoin(attach_handles, attach_handles.c.id == claims.c.attach_handle_id)
    .outerjoin(leases, leases.c.id == arqs.c.lease_id)
)
_ARQS = select(*_COLUMNS).select_from(_JOINED)
#: With the device of the claimed unit.
_WITH_DEVICE = select(
    *_COLUMNS, devices.c.mode.label("device_mode"), devices.c.labels.label("device_labels")
).select_from(
    _JOINED.outerjoin(deployables, deployables.c.id == claims.c.deployable_id).outerjoin(
        devices, devices.c.id == deployables.c.device_id
    )
)
_BY_UUID = Prepared(_ARQS.where(arqs.c.uuid == bindparam("uuid")))
_OF_INSTANCE = Prepared(
    _ARQS.where(arqs.c.instance_uuid == bindparam("instance")).order_by(arqs.c.created_at, arqs.c.id)
)
_OF_LEASE = _WITH_DEVICE.where(arqs.c.lease_id == bindparam("of_lease")).order_by(arqs.c.id)

_ADD = insert(arqs).returning(arqs.c.id, arqs.c.uuid)
_ADD_STARTED = _ADD.values(deadline=database_now(bindparam("seconds")))


def by_uuid(connection: Connection, uuid: str) -> Arq | None:
    """One ARQ."""
    row = _BY_UUID.first(connection, {"uuid": uuid})
    return None if row is None else arq(row)


def of_instance(connection: Connection, instance: str) -> list[Arq]:
    """All ARQs of one instance, oldest first."""
    return [arq(row) for row in _OF_INSTANCE.all(connection, {"instance": instance})]


def of_lease(connection: Connection, lease_id: int) -> list[Arq]:
    """The ARQs of a lease, in the order of its profile's groups."""
    return [_of_lease(row) for row in connection.execute(_OF_LEASE, {"of_lease": lease_id})]


def of_leases(connection: Connection, lease_ids: Select[tuple[int]]) -> list[tuple[int, Arq]]:
    """Number of the lease and ARQ, for all leases that a query finds."""
    wanted = lease_ids.subquery()  # joined: MariaDB takes no LIMIT inside IN
    query = _WITH_DEVICE.join(wanted, wanted.c.id == arqs.c.lease_id).order_by(arqs.c.id)
    return [(row.lease_id, _of_lease(row)) for row in connection.execute(query)]


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


def remove_of_lease(connection: Connection, lease_id: int) -> None:
    """Delete the ARQs of a lease; their claims stay."""
    connection.execute(delete(arqs).where(arqs.c.lease_id == lease_id))


def _of_lease(row: Record) -> Arq:
    """The value of a row of `_WITH_DEVICE`."""
    if row.device_mode is None:
        return arq(row)
    return arq(row, isolation=of_device(row.device_mode, row.device_labels))


def arq(row: Record, *, isolation: Isolation | None = None) -> Arq:
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
        isolation=isolation,
    )
