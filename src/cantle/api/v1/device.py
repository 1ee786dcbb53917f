"""``/v1/devices`` and ``/v1/hosts/{host}/devices/{address}``: what v2 has no words for: address, capabilities, mode, intent, reasons."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from cantle.api.call import Call
from cantle.api.parking import retry_after
from cantle.api.v1 import collection
from cantle.api.v2.resource import Link, stamp
from cantle.engine import device as engine
from cantle.model.device import Device, DeviceStatus, Health, Mode
from cantle.model.intent import Intent, canonical
from cantle.model.isolation import of_device


class DeviceQuery(collection.CollectionQuery, frozen=True, kw_only=True):
    """All are matched as a whole."""

    type: str | None = None
    vendor: str | None = None
    hostname: str | None = None
    address: str | None = None
    mode: Mode | None = None
    health: Health | None = None
    status: DeviceStatus | None = None


class WaitQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``wait``: seconds to wait for the device's intent to be followed, or for its failure."""

    wait: Annotated[float, msgspec.Meta(ge=0)] = 0


class Shape(msgspec.Struct, frozen=True):
    """A device on the wire; the words are those of :class:`cantle.model.device.Device`. ``isolation``: how its units are kept apart from
    each other (:class:`cantle.model.isolation.Isolation`); null for what is never lent."""

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
    out_of_service: str | None
    intent_state: str
    numa_node: int | None
    isolation: str | None
    labels: dict[str, str]
    std_board_info: dict[str, str]
    vendor_board_info: dict[str, str]
    created_at: str | None
    updated_at: str | None


class Wish(msgspec.Struct, frozen=True):
    """What the device shall be, in the words of :class:`cantle.model.intent.Intent`. ``etag`` goes into ``If-Match`` to change it."""

    mode: str
    types: dict[str, str]
    hardware: str
    version: int
    etag: str


class Shown(Shape, frozen=True):
    """One device, with what it could make and what is wanted of it."""

    mdev_types: dict[str, dict[str, str]]
    intent: Wish | None
    intent_reason: str | None


class Listed(msgspec.Struct, frozen=True):
    """A list of devices."""

    devices: list[Shape]
    devices_links: list[Link] = []


def list_all(call: Call) -> dict[str, Any]:
    """Devices, those of a host, type, mode and so on if asked."""
    asked: DeviceQuery = call.query
    limits = collection.page(call)
    address = None if asked.address is None else canonical(asked.address)
    found = engine.list_devices(
        call.db,
        page=limits,
        type=asked.type,
        vendor=asked.vendor,
        hostname=asked.hostname,
        address=address,
        mode=asked.mode,
        health=asked.health,
        status=asked.status,
    )
    return collection.answer(call, "devices", limits, found, _shape, kind=Shape, marker=lambda device: device.uuid)


def find(call: Call) -> Shown:
    """One device by its uuid."""
    return _shown(engine.get_device(call.db, call.params["uuid"]))


def show(call: Call) -> Shown:
    """One device by host and address; with ``wait`` as soon as its intent is not pending. Where all waiting places are taken, at once
    and with a ``Retry-After``."""
    asked: WaitQuery = call.query
    host, address = call.params["host"], call.params["address"]
    if not asked.wait:
        return _shown(engine.wait_device(call.db, host, address))
    with call.site.parking.place() as free:
        if not free:
            call.headers["Retry-After"] = str(retry_after())
        seconds = min(asked.wait, call.site.settings.longest_wait) if free else 0
        return _shown(engine.wait_device(call.db, host, address, seconds=seconds))


def _shown(device: Device) -> Shown:
    intent = device.intent.intent
    return Shown(
        **msgspec.structs.asdict(_shape(device)),
        mdev_types=device.mdev_types,
        intent=None if intent is None else _wish(intent),
        intent_reason=device.intent_reason,
    )


def _wish(intent: Intent) -> Wish:
    return Wish(intent.mode, dict(intent.types), intent.hardware, intent.version, intent.etag)


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
        out_of_service=device.out_of_service,
        intent_state=device.intent.state,
        numa_node=device.numa_node,
        isolation=of_device(device.mode, device.labels),
        labels=device.labels,
        std_board_info=device.std_board_info,
        vendor_board_info=device.vendor_board_info,
        created_at=stamp(device.created_at),
        updated_at=stamp(device.updated_at),
    )
