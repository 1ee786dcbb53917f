"""Devices."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping

from sqlalchemy import Connection, bindparam, select, update

from cantle.model.device import ControlPath, Device, DeviceStatus, DeviceType, Health, Mode
from cantle.model.page import Page
from cantle.store.host import UP
from cantle.store.paging import narrowed, window
from cantle.store.service import INTENT, intent_status, why_not, with_intents
from cantle.store.tables import devices, hosts, intents
from cantle.store.types import Record

SORT_KEYS = {
    "created_at": devices.c.created_at,
    "hostname": hosts.c.hostname,
    "address": devices.c.address,
    "type": devices.c.type,
    "vendor": devices.c.vendor,
    "model": devices.c.model,
    "uuid": devices.c.uuid,
}

#: What a list can be narrowed by.
FILTERS = {
    "type": devices.c.type,
    "vendor": devices.c.vendor,
    "hostname": hosts.c.hostname,
    "address": devices.c.address,
    "mode": devices.c.mode,
    "health": devices.c.health,
    "status": devices.c.status,
}

#: All but the plans: only one device's are ever asked for.
_DEVICES = select(
    *(column for column in devices.c if column.name != "plans" and not column.name.startswith("intent_")),
    devices.c.address.label("device_address"),
    devices.c.reason.label("device_reason"),
    hosts.c.hostname,
    UP.label("up"),
    hosts.c.drained_at,
    hosts.c.frozen_at,
    *INTENT,
    intents.c.set_by,
    intents.c.created_at.label("wished_at"),
    intents.c.updated_at.label("wish_changed_at"),
).select_from(with_intents(devices.join(hosts, hosts.c.id == devices.c.host_id)))
_BY_UUID = _DEVICES.where(devices.c.uuid == bindparam("uuid"))
_AT = _DEVICES.where(hosts.c.hostname == bindparam("hostname"), devices.c.address == bindparam("address"))
_PLANS = select(devices.c.plans).where(devices.c.id == bindparam("device_id"))


def by_uuid(connection: Connection, uuid: str) -> Device | None:
    """One device."""
    row = connection.execute(_BY_UUID, {"uuid": uuid}).first()
    return None if row is None else device(row)


def at(connection: Connection, hostname: str, address: str) -> Device | None:
    """The device at that address of a host."""
    row = connection.execute(_AT, {"hostname": hostname, "address": address}).first()
    return None if row is None else device(row)


def plans(connection: Connection, device_id: int) -> str | None:
    """JSON text, by mode, of what its host would do to bring it to each, as reported; None if nothing was."""
    found: str | None = connection.execute(_PLANS, {"device_id": device_id}).scalar()
    return found


def listed(connection: Connection, where: Mapping[str, object], page: Page | None) -> list[Device]:
    """Devices whose `FILTERS` are exactly these."""
    query = narrowed(_DEVICES, FILTERS, where)
    return [device(row) for row in connection.execute(window(connection, query, page, devices, SORT_KEYS))]


def set_status(connection: Connection, device_id: int, status: DeviceStatus, now: dt.datetime) -> None:
    """What the operator wants of it."""
    connection.execute(update(devices).where(devices.c.id == device_id).values(status=status, updated_at=now))


def device(row: Record) -> Device:
    """The value of a row of `_DEVICES`."""
    status = dataclasses.replace(
        intent_status(row), set_by=row.set_by or "", created_at=row.wished_at, updated_at=row.wish_changed_at
    )
    return Device(
        id=row.id,
        uuid=row.uuid,
        hostname=row.hostname,
        address=row.address,
        type=DeviceType(row.type),
        vendor=row.vendor,
        model=row.model,
        vendor_id=row.vendor_id,
        product_id=row.product_id,
        mode=Mode(row.mode),
        health=Health(row.health),
        status=DeviceStatus(row.status),
        created_at=row.created_at,
        intent=status,
        updated_at=row.updated_at,
        reason=row.reason,
        out_of_service=why_not(row),
        numa_node=row.numa_node,
        capabilities=row.capabilities,
        mdev_types=row.mdev_types or {},
        labels=row.labels or {},
        std_board_info=row.std_board_info,
        vendor_board_info=row.vendor_board_info,
        control_path=ControlPath(row.control_path_uuid, row.control_path_type, row.control_path_info),
    )
