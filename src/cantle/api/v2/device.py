"""``/v2/devices``: the cards of all hosts."""

from __future__ import annotations

import msgspec

from cantle.api import microversion
from cantle.api.call import Call
from cantle.api.query import PageQuery
from cantle.api.v2.resource import Link, next_links, page, self_link, stamp
from cantle.engine import device as engine
from cantle.model.device import Device, DeviceStatus
from cantle.model.uuids import canonical


class DeviceQuery(PageQuery, frozen=True, kw_only=True):
    """Each of the three is matched as a whole; one that is empty is none, as in Cyborg."""

    type: str | None = None
    vendor: str | None = None
    hostname: str | None = None


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A device on the wire. The two board infos are JSON *text*, as Cyborg's are; ``status`` is there from 2.3 on."""

    uuid: str
    type: str
    vendor: str
    model: str
    std_board_info: str
    vendor_board_info: str
    hostname: str
    status: str | msgspec.UnsetType = msgspec.UNSET
    links: list[Link]
    created_at: str | None
    updated_at: str | None


class Listed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A list of devices; clients rely on ``devices`` being the first key."""

    devices: list[Shape]
    devices_links: list[Link] = []


def list_all(call: Call) -> Listed:
    """Devices, those of a type, vendor or host if asked."""
    asked: DeviceQuery = call.query
    limits = page(call)
    found = engine.list_devices(
        call.db, type=asked.type or None, vendor=asked.vendor or None, hostname=asked.hostname or None, page=limits
    )
    return Listed([_shape(call, device) for device in found], next_links(call, limits.limit, found))


def show(call: Call) -> Shape:
    """One device; what is no uuid is simply not there."""
    return _shape(call, engine.get_device(call.db, _uuid(call)))


def disable(call: Call) -> None:
    """Take it out of service: what is lent stays lent, nothing new is."""
    engine.set_status(call.db, call.who, _uuid(call), DeviceStatus.MAINTAINING)


def enable(call: Call) -> None:
    """Put it back into service."""
    engine.set_status(call.db, call.who, _uuid(call), DeviceStatus.ENABLED)


def _uuid(call: Call) -> str:
    text = call.params["uuid"]
    return canonical(text) or text


def _shape(call: Call, device: Device) -> Shape:
    return Shape(
        uuid=device.uuid,
        type=device.type,
        vendor=device.vendor,
        model=device.model,
        std_board_info=msgspec.json.encode(device.std_board_info).decode(),
        vendor_board_info=msgspec.json.encode(device.vendor_board_info).decode(),
        hostname=device.hostname,
        links=self_link(call, "devices", device.uuid),
        created_at=stamp(device.created_at),
        updated_at=stamp(device.updated_at),
        status=device.status if call.minor >= microversion.DEVICE_STATUS else msgspec.UNSET,
    )
