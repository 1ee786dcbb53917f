"""Taking a host's inventory out of the database, and who would miss it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete, select, update

from cantle.store.kind_tables import stocks
from cantle.store.tables import (
    arqs,
    attach_handles,
    attributes,
    claims,
    deployables,
    devices,
    intents,
    leases,
)
from cantle.store.types import Record

_DEVICES = select(devices.c.id).where(devices.c.host_id == bindparam("of_host"))
_DEPLOYABLES = select(deployables.c.id).where(deployables.c.host_id == bindparam("of_host"))

_HELD = (
    select(leases.c.uuid.label("lease_uuid"), leases.c.workload, arqs.c.uuid.label("arq_uuid"), arqs.c.instance_uuid)
    .select_from(
        claims.outerjoin(leases, leases.c.id == claims.c.lease_id).outerjoin(arqs, arqs.c.id == claims.c.arq_id)
    )
    .where(claims.c.host_id == bindparam("of_host"))
    .order_by(claims.c.id)
)

#: Whatever refers to something goes before it.
_REMOVE = (
    delete(attach_handles).where(attach_handles.c.deployable_id.in_(_DEPLOYABLES)),
    delete(attributes).where(attributes.c.deployable_id.in_(_DEPLOYABLES)),
    delete(intents).where(intents.c.device_id.in_(_DEVICES)),
    update(deployables).where(deployables.c.host_id == bindparam("of_host")).values(parent_id=None, root_id=None),
    delete(deployables).where(deployables.c.host_id == bindparam("of_host")),
    delete(devices).where(devices.c.host_id == bindparam("of_host")),
    delete(stocks).where(stocks.c.host_id == bindparam("of_host")),
)

_OF_DEVICE = select(deployables.c.id).where(deployables.c.device_id == bindparam("of_device"))
_REMOVE_DEVICE = (
    delete(attach_handles).where(attach_handles.c.deployable_id.in_(_OF_DEVICE)),
    delete(attributes).where(attributes.c.deployable_id.in_(_OF_DEVICE)),
    delete(intents).where(intents.c.device_id == bindparam("of_device")),
    update(deployables).where(deployables.c.device_id == bindparam("of_device")).values(parent_id=None, root_id=None),
    delete(deployables).where(deployables.c.device_id == bindparam("of_device")),
    delete(devices).where(devices.c.id == bindparam("of_device")),
)

_RENAME = update(deployables).where(deployables.c.id == bindparam("of_deployable")).values(name=bindparam("to_name"))
_NAMES = select(deployables.c.id, deployables.c.name).where(deployables.c.host_id == bindparam("of_host"))


def held(connection: Connection, host_id: int) -> Sequence[Record]:
    """Every unit of a host that is lent or being taken back: lease_uuid, workload, arq_uuid, instance_uuid; None where there is none."""
    return connection.execute(_HELD, {"of_host": host_id}).all()


def remove(connection: Connection, host_id: int) -> None:
    """Delete all that a host has. Nothing of it may be lent."""
    for statement in _REMOVE:
        connection.execute(statement, {"of_host": host_id})


def remove_device(connection: Connection, device_id: int) -> None:
    """Delete one device with all it has and all that was wanted of it. Nothing of it may be lent."""
    for statement in _REMOVE_DEVICE:
        connection.execute(statement, {"of_device": device_id})


def rename(connection: Connection, host_id: int, before: str, after: str) -> None:
    """What is named after its host, as `cantle.drivers` names it, is named after it again."""
    prefix = f"{before}_"
    rows = connection.execute(_NAMES, {"of_host": host_id})
    changes = [
        {"of_deployable": row.id, "to_name": f"{after}_{row.name.removeprefix(prefix)}"}
        for row in rows
        if row.name.startswith(prefix)
    ]
    if changes:
        connection.execute(_RENAME, changes)
