"""Devices."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import Connection, bindparam, select, update

from cantle.model.device import ControlPath, Device, DeviceStatus, DeviceType, Health, Mode
from cantle.model.page import Page
from cantle.store.paging import window
from cantle.store.tables import devices, hosts
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

_DEVICES = select(devices, hosts.c.hostname).join(hosts, hosts.c.id == devices.c.host_id)
_BY_UUID = _DEVICES.where(devices.c.uuid == bindparam("uuid"))


def by_uuid(connection: Connection, uuid: str) -> Device | None:
    """One device."""
    row = connection.execute(_BY_UUID, {"uuid": uuid}).first()
    return None if row is None else device(row)


def listed(
    connection: Connection, *, type: str | None, vendor: str | None, hostname: str | None, page: Page | None
) -> list[Device]:
    """Devices with exactly these values."""
    query = _DEVICES
    if type is not None:
        query = query.where(devices.c.type == type)
    if vendor is not None:
        query = query.where(devices.c.vendor == vendor)
    if hostname is not None:
        query = query.where(hosts.c.hostname == hostname)
    return [device(row) for row in connection.execute(window(connection, query, page, devices, SORT_KEYS))]


def set_status(connection: Connection, device_id: int, status: DeviceStatus, now: dt.datetime) -> None:
    """What the operator wants of it."""
    connection.execute(update(devices).where(devices.c.id == device_id).values(status=status, updated_at=now))


def device(row: Record) -> Device:
    """The value of a row with the table's columns and ``hostname``."""
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
        updated_at=row.updated_at,
        reason=row.reason,
        numa_node=row.numa_node,
        capabilities=row.capabilities,
        std_board_info=row.std_board_info,
        vendor_board_info=row.vendor_board_info,
        control_path=ControlPath(row.control_path_uuid, row.control_path_type, row.control_path_info),
    )
