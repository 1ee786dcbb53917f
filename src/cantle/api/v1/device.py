"""``/v1/devices``: what v2 has no words for: address, capabilities, mode, health, reason."""

from __future__ import annotations

import msgspec

from cantle.api.call import Call
from cantle.api.v2.device import DeviceQuery
from cantle.api.v2.resource import Link, next_links, page, stamp
from cantle.engine import device as engine
from cantle.model.device import Device


class Shape(msgspec.Struct, frozen=True):
    """A device on the wire; the words are those of :class:`cantle.model.device.Device`."""

    uuid: str
    hostname: str
    address: str
    type: str
    vendor: str
    model: str
    vendor_id: str
    product_id: str
    capabilities: tuple[str, ...]
    mode: str
    health: str
    status: str
    reason: str | None
    numa_node: int | None
    std_board_info: dict[str, str]
    vendor_board_info: dict[str, str]
    created_at: str | None
    updated_at: str | None


class Listed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A list of devices."""

    devices: list[Shape]
    devices_links: list[Link] = []


def list_all(call: Call) -> Listed:
    """Devices, those of a type, vendor or host if asked."""
    asked: DeviceQuery = call.query
    limits = page(call)
    found = engine.list_devices(call.db, type=asked.type, vendor=asked.vendor, hostname=asked.hostname, page=limits)
    return Listed([_shape(device) for device in found], next_links(call, limits.limit, found))


def _shape(device: Device) -> Shape:
    return Shape(
        uuid=device.uuid,
        hostname=device.hostname,
        address=device.address,
        type=device.type,
        vendor=device.vendor,
        model=device.model,
        vendor_id=device.vendor_id,
        product_id=device.product_id,
        capabilities=device.capabilities,
        mode=device.mode,
        health=device.health,
        status=device.status,
        reason=device.reason,
        numa_node=device.numa_node,
        std_board_info=device.std_board_info,
        vendor_board_info=device.vendor_board_info,
        created_at=stamp(device.created_at),
        updated_at=stamp(device.updated_at),
    )
