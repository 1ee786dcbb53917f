"""``/v1/arqs``: accelerator requests with their reasons and leases, which v2 has no words for. They are made and bound over v2, or as
parts of a lease."""

from __future__ import annotations

from typing import Any

import msgspec

from cantle.api.call import Call
from cantle.api.v1 import collection
from cantle.api.v2.resource import Link, stamp
from cantle.engine import arq as engine
from cantle.model.arq import Arq, ArqState
from cantle.model.uuids import checked


class ArqQuery(collection.CollectionQuery, frozen=True, kw_only=True):
    """All three are matched as a whole; ``instance`` is a uuid."""

    instance: str | None = None
    state: ArqState | None = None
    hostname: str | None = None


class Shape(msgspec.Struct, frozen=True):
    """A request on the wire; the words are those of :class:`cantle.model.arq.Arq`. Attach fields are "", null and {} unless it is Bound."""

    uuid: str
    state: str
    reason_code: str | None
    reason: str | None
    profile_name: str
    group_id: int
    resource_class: str
    required: tuple[str, ...]
    forbidden: tuple[str, ...]
    project_id: str | None
    hostname: str | None
    instance_uuid: str | None
    lease_uuid: str | None
    device_rp_uuid: str | None
    attach_handle_type: str
    attach_handle_uuid: str | None
    attach_handle_info: dict[str, str]
    created_at: str | None
    updated_at: str | None


class Listed(msgspec.Struct, frozen=True):
    """A list of requests."""

    arqs: list[Shape]
    arqs_links: list[Link] = []


def list_all(call: Call) -> dict[str, Any]:
    """The caller's requests."""
    asked: ArqQuery = call.query
    limits = collection.page(call)
    instance = None if asked.instance is None else checked(asked.instance, "The instance's uuid")
    found = engine.find_arqs(
        call.db, call.who, instance=instance, state=asked.state, hostname=asked.hostname, page=limits
    )
    return collection.answer(call, "arqs", limits, found, _shape, kind=Shape, marker=lambda arq: arq.uuid)


def show(call: Call) -> Shape:
    """One request; somebody else's is not there."""
    return _shape(engine.get_arq(call.db, call.who, checked(call.params["uuid"], "The accelerator request's uuid")))


def _shape(arq: Arq) -> Shape:
    return Shape(
        uuid=arq.uuid,
        state=arq.shown_state,
        reason_code=arq.reason_code,
        reason=arq.reason,
        profile_name=arq.profile_name,
        group_id=arq.group_id,
        resource_class=arq.resource_class,
        required=arq.required,
        forbidden=arq.forbidden,
        project_id=arq.project_id,
        hostname=arq.hostname,
        instance_uuid=arq.instance_uuid,
        lease_uuid=arq.lease_uuid,
        device_rp_uuid=arq.device_rp_uuid,
        attach_handle_type=arq.attach_handle_type,
        attach_handle_uuid=arq.attach_handle_uuid,
        attach_handle_info=arq.attach_handle_info,
        created_at=stamp(arq.created_at),
        updated_at=stamp(arq.updated_at),
    )
