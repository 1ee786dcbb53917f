"""Deployables, with how much of them is lent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, select, update

from cantle.model.deployable import Attribute, Deployable
from cantle.model.page import Page
from cantle.store import attribute
from cantle.store.paging import narrowed, window
from cantle.store.prepared import Prepared
from cantle.store.service import SERVICE, remark, why_not, with_intents
from cantle.store.tables import (
    attach_handles,
    attributes,
    claims,
    deployables,
    devices,
    hosts,
)
from cantle.store.types import Record, database_now

SORT_KEYS: dict[str, ColumnElement[Any]] = {
    "created_at": deployables.c.created_at,
    "name": deployables.c.name,
    "uuid": deployables.c.uuid,
    "hostname": hosts.c.hostname,
    "resource_class": deployables.c.resource_class,
}

#: What a list can be narrowed by.
FILTERS: dict[str, ColumnElement[Any]] = {
    "hostname": hosts.c.hostname,
    "device_uuid": devices.c.uuid,
    "resource_class": deployables.c.resource_class,
}

# Under names of their own, so that these counts can stand in queries that have units and claims themselves.
_lent = claims.alias("lent")
_unit = attach_handles.alias("unit")

#: Units lent or being taken back.
USED = (
    select(func.count())
    .select_from(_lent)
    .where(_lent.c.deployable_id == deployables.c.id)
    .scalar_subquery()
    .label("used")
)

#: Units that could be claimed now, if the deployable is in service.
FREE = (
    select(func.count())
    .select_from(_unit.outerjoin(_lent, _lent.c.attach_handle_id == _unit.c.id))
    .where(_unit.c.deployable_id == deployables.c.id, _unit.c.present, _lent.c.id.is_(None))
    .scalar_subquery()
    .label("free")
)

#: So many seconds a card that could not be made ready is chosen after all others: who tries again at once should not meet it again.
FAILING_S = 600
FAILING: ColumnElement[bool] = and_(
    deployables.c.failed_at.is_not(None), deployables.c.failed_at > database_now(-FAILING_S)
)

_FAILED = update(deployables).values(failed_at=database_now())

#: A deployable in its device and its host, with the wish for the device.
PLACES = with_intents(
    deployables.join(devices, devices.c.id == deployables.c.device_id).join(hosts, hosts.c.id == deployables.c.host_id)
)
_DEPLOYABLES = select(deployables, *SERVICE, USED).select_from(PLACES)
_BY_UUID = _DEPLOYABLES.where(deployables.c.uuid == bindparam("uuid"))
#: What a bind looks at.
PROVIDERS = select(
    deployables.c.id,
    deployables.c.host_id,
    deployables.c.rp_uuid,
    deployables.c.name,
    deployables.c.resource_class,
    deployables.c.traits,
    devices.c.labels,
    hosts.c.generation,
    *SERVICE,
).select_from(PLACES)
_BY_RP = Prepared(
    PROVIDERS.where(deployables.c.rp_uuid.in_(bindparam("rp_uuids", expanding=True))), lists=("rp_uuids",)
)

_CAPACITY = select(
    deployables.c.id,
    deployables.c.uuid,
    deployables.c.rp_uuid,
    deployables.c.resource_class,
    deployables.c.traits,
    deployables.c.total,
    *SERVICE,
    USED,
    FREE,
).select_from(PLACES)


def by_uuid(connection: Connection, uuid: str) -> Deployable | None:
    """One deployable with its attributes."""
    row = connection.execute(_BY_UUID, {"uuid": uuid}).first()
    return None if row is None else _deployable(row, attribute.listed(connection, row.id, None, None))


def listed(connection: Connection, where: Mapping[str, object], page: Page | None) -> list[Deployable]:
    """Deployables whose `FILTERS` are exactly these, with their attributes: two statements, however many there are."""
    query = window(connection, narrowed(_DEPLOYABLES, FILTERS, where), page, deployables, SORT_KEYS)
    rows = connection.execute(query).all()
    wanted = query.with_only_columns(deployables.c.id).subquery()
    found: dict[int, list[Attribute]] = defaultdict(list)
    for row in connection.execute(
        select(attributes).join(wanted, wanted.c.id == attributes.c.deployable_id).order_by(attributes.c.id)
    ):
        found[row.deployable_id].append(attribute.attribute(row))
    return [_deployable(row, found[row.id]) for row in rows]


def providers(connection: Connection, rp_uuids: Sequence[str]) -> dict[str, Record]:
    """By provider uuid: id, host_id, rp_uuid, name, resource_class, traits, the host's generation and what `SERVICE` has."""
    return {row.rp_uuid: row for row in _BY_RP.all(connection, {"rp_uuids": rp_uuids})}


def capacity(connection: Connection, where: Mapping[str, object], page: Page | None) -> Sequence[Record]:
    """Deployables whose `FILTERS` are exactly these, with used and free units; by host and device where no page is asked for."""
    query = narrowed(_CAPACITY, FILTERS, where)
    if page is None:
        query = query.order_by(hosts.c.hostname, devices.c.address, deployables.c.name)
    else:
        query = window(connection, query, page, deployables, SORT_KEYS)
    return connection.execute(query).all()


def _deployable(row: Record, facts: Sequence[Attribute]) -> Deployable:
    return Deployable(
        id=row.id,
        uuid=row.uuid,
        name=row.name,
        device_id=row.device_id,
        device_uuid=row.device_uuid,
        device_address=row.device_address,
        hostname=row.hostname,
        rp_uuid=row.rp_uuid,
        driver_name=row.driver_name,
        resource_class=row.resource_class,
        traits=row.traits,
        total=row.total,
        used=row.used,
        in_service=why_not(row) is None,
        reason=remark(row),
        created_at=row.created_at,
        updated_at=row.updated_at,
        attributes=tuple(facts),
        parent_id=row.parent_id,
        root_id=row.root_id,
        bitstream_id=row.bitstream_id,
    )


def failed(connection: Connection, deployable_ids: Sequence[int]) -> None:
    """Units of these could not be made ready just now."""
    connection.execute(_FAILED.where(deployables.c.id.in_(deployable_ids)))


def failed_on(connection: Connection, host_id: int) -> None:
    """This host made no unit ready in time: it may be that of any of its cards."""
    connection.execute(_FAILED.where(deployables.c.host_id == host_id))
