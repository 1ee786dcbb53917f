"""``/v2/deployables``: the parts of devices that are offered together, one resource provider each."""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from cantle.api.call import Call
from cantle.api.v2.resource import Link, next_links, page, stamp
from cantle.engine import deployable as engine
from cantle.errors import BadRequest
from cantle.model.deployable import Deployable
from cantle.model.uuids import checked


class Shape(msgspec.Struct, frozen=True):
    """A deployable on the wire. As Cyborg's: ``attributes_list`` is JSON *text* of a list of one-key objects, ``device_id`` a number."""

    uuid: str
    parent_id: int | None
    root_id: int | None
    name: str
    num_accelerators: int
    device_id: int
    attributes_list: str
    rp_uuid: str
    driver_name: str
    bitstream_id: str | None
    links: list[Link]
    created_at: str | None
    updated_at: str | None


class Listed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A list of deployables; clients rely on ``deployables`` being the first key."""

    deployables: list[Shape]
    deployables_links: list[Link] = []


class ProgramStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``{"path": "/program", "op": "replace", "value": [{"image_uuid": "…"}]}``."""

    path: str
    op: str
    value: list[dict[str, Any]]


def list_all(call: Call) -> Listed:
    """All deployables."""
    limits = page(call)
    found = engine.list_deployables(call.db, page=limits)
    return Listed([_shape(call, deployable) for deployable in found], next_links(call, limits.limit, found))


def show(call: Call) -> Shape:
    """One deployable."""
    return _shape(call, engine.get_deployable(call.db, _uuid(call)))


def program(call: Call) -> NoReturn:
    """Ask for a device to be programmed; none that Cantle knows can be (spec S3.11), and the engine says so with a 409."""
    uuid = _uuid(call)
    steps: list[ProgramStep] = call.body
    if len(steps) != 1 or (steps[0].path, steps[0].op) != ("/program", "replace") or len(steps[0].value) != 1:
        raise BadRequest(
            "bad-program-request", 'Send [{"path": "/program", "op": "replace", "value": [{"image_uuid": "<uuid>"}]}].'
        )
    image = steps[0].value[0]
    if set(image) != {"image_uuid"}:
        raise BadRequest("bad-program-request", "The value's one object must have 'image_uuid' and nothing else.")
    checked(str(image["image_uuid"]), "The image's uuid")
    engine.program(call.db, call.who, uuid)


def _uuid(call: Call) -> str:
    uuid = checked(call.params["uuid"], "The deployable's uuid")
    same = call.params.get("same")
    if same is not None and checked(same, "The deployable's uuid") != uuid:
        raise BadRequest("bad-path", f"The path names two deployables, {uuid} and {same}.")
    return uuid


def _shape(call: Call, deployable: Deployable) -> Shape:
    uuid = deployable.uuid
    return Shape(
        uuid=uuid,
        parent_id=deployable.parent_id,
        root_id=deployable.root_id,
        name=deployable.name,
        num_accelerators=deployable.total,
        device_id=deployable.device_id,
        attributes_list=msgspec.json.encode(
            [{attribute.key: attribute.value} for attribute in deployable.attributes]
        ).decode(),
        rp_uuid=deployable.rp_uuid,
        driver_name=deployable.driver_name,
        bitstream_id=deployable.bitstream_id,
        links=[Link(f"{call.base}/v2/deployables/{uuid}", "self"), Link(f"{call.base}/deployables/{uuid}", "bookmark")],
        created_at=stamp(deployable.created_at),
        updated_at=stamp(deployable.updated_at),
    )
