"""``/v1/deployables``: the parts of devices that are offered together, in plain words."""

from __future__ import annotations

from typing import Any

import msgspec

from cantle.api.call import Call
from cantle.api.v1 import collection
from cantle.api.v2.resource import Link, stamp
from cantle.engine import deployable as engine
from cantle.model.deployable import Deployable
from cantle.model.uuids import checked


class DeployableQuery(collection.CollectionQuery, frozen=True, kw_only=True):
    """The three are matched as a whole."""

    hostname: str | None = None
    resource_class: str | None = None
    device_uuid: str | None = None


class Shape(msgspec.Struct, frozen=True):
    """A deployable on the wire; the words are those of :class:`cantle.model.deployable.Deployable`. ``attributes`` are value by key."""

    uuid: str
    name: str
    hostname: str
    device_uuid: str
    device_address: str
    resource_class: str
    traits: tuple[str, ...]
    total: int
    used: int
    in_service: bool
    reason: str | None
    rp_uuid: str
    driver_name: str
    attributes: dict[str, str]
    created_at: str | None
    updated_at: str | None


class Listed(msgspec.Struct, frozen=True):
    """A list of deployables."""

    deployables: list[Shape]
    deployables_links: list[Link] = []


def list_all(call: Call) -> dict[str, Any]:
    """Deployables, those of a host, device or resource class if asked."""
    asked: DeployableQuery = call.query
    limits = collection.page(call)
    found = engine.list_deployables(
        call.db,
        page=limits,
        hostname=asked.hostname,
        resource_class=asked.resource_class,
        device_uuid=asked.device_uuid,
    )
    return collection.answer(
        call, "deployables", limits, found, _shape, kind=Shape, marker=lambda deployable: deployable.uuid
    )


def show(call: Call) -> Shape:
    """One deployable."""
    return _shape(engine.get_deployable(call.db, checked(call.params["uuid"], "The deployable's uuid")))


def _shape(deployable: Deployable) -> Shape:
    return Shape(
        uuid=deployable.uuid,
        name=deployable.name,
        hostname=deployable.hostname,
        device_uuid=deployable.device_uuid,
        device_address=deployable.device_address,
        resource_class=deployable.resource_class,
        traits=deployable.traits,
        total=deployable.total,
        used=deployable.used,
        in_service=deployable.in_service,
        reason=deployable.reason,
        rp_uuid=deployable.rp_uuid,
        driver_name=deployable.driver_name,
        attributes={attribute.key: attribute.value for attribute in deployable.attributes},
        created_at=stamp(deployable.created_at),
        updated_at=stamp(deployable.updated_at),
    )
