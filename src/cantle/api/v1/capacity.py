"""``/v1/capacity``: what is free where, and why the rest is not."""

from __future__ import annotations

from typing import Any

import msgspec

from cantle.api.call import Call
from cantle.api.v1 import collection
from cantle.api.v2.resource import Link
from cantle.engine import capacity as engine
from cantle.model.capacity import Capacity


class CapacityQuery(collection.CollectionQuery, frozen=True, kw_only=True):
    """The three are matched as a whole. The marker is the uuid of a deployable."""

    hostname: str | None = None
    resource_class: str | None = None
    device_uuid: str | None = None


class Shape(msgspec.Struct, frozen=True):
    """One deployable's units on the wire; the words are those of :class:`cantle.model.capacity.Capacity`."""

    hostname: str
    device_address: str
    deployable_uuid: str
    rp_uuid: str
    resource_class: str
    traits: tuple[str, ...]
    total: int
    used: int
    free: int
    in_service: bool
    reason: str | None


class Listed(msgspec.Struct, frozen=True):
    """One entry per deployable."""

    capacity: list[Shape]
    capacity_links: list[Link] = []


def list_all(call: Call) -> dict[str, Any]:
    """Deployables with their units counted, by host."""
    asked: CapacityQuery = call.query
    limits = collection.page(call, sort_key="name")  # host, then address
    found = engine.list_capacity(
        call.db,
        page=limits,
        hostname=asked.hostname,
        resource_class=asked.resource_class,
        device_uuid=asked.device_uuid,
    )
    return collection.answer(
        call, "capacity", limits, found, _shape, kind=Shape, marker=lambda entry: entry.deployable_uuid
    )


def _shape(entry: Capacity) -> Shape:
    return Shape(**{name: getattr(entry, name) for name in Shape.__struct_fields__})
