"""``/v2/accelerator_requests``: one accelerator for one instance each (spec S3.4 to S3.6)."""

from __future__ import annotations

from typing import Any

import msgspec

from cantle.api.call import Call
from cantle.api.query import PageQuery
from cantle.api.v2 import arq_patch
from cantle.api.v2.resource import Link, next_links, page, self_link, stamp
from cantle.engine import arq as engine
from cantle.engine import bind as binding
from cantle.errors import BadRequest
from cantle.model.arq import Arq
from cantle.model.uuids import canonical, checked

#: Seconds for which the compute service's question is held at most. Longer than a host needs, much shorter than any proxy's patience.
HELD_S = 10.0


class ArqQuery(PageQuery, frozen=True, kw_only=True):
    """``bind_state`` has one value, ``resolved``; an empty one is none, as in Cyborg."""

    instance: str | None = None
    bind_state: str | None = None


class DeleteQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one: ``arqs``, uuids separated by commas, or ``instance``, a uuid. One that is empty is none, as in Cyborg."""

    arqs: str | None = None
    instance: str | None = None


class NewArqs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client sends; the last two are taken and ignored, as Cyborg does."""

    device_profile_name: str
    device_profile_group_id: Any = None
    image_uuid: Any = None


class Shape(msgspec.Struct, frozen=True, gc=False):
    """A request on the wire. Key order as Cyborg's; attach fields are "", null and {} while nothing is attached."""

    uuid: str
    state: str
    device_profile_name: str
    device_profile_group_id: int
    hostname: str | None
    device_rp_uuid: str | None
    instance_uuid: str | None
    project_id: str | None
    attach_handle_type: str
    attach_handle_uuid: str | None
    attach_handle_info: dict[str, str]
    links: list[Link]
    created_at: str | None
    updated_at: str | None


class Listed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A list of requests, also the answer to their creation."""

    arqs: list[Shape]
    arqs_links: list[Link] = []


def list_all(call: Call) -> Listed:
    """The caller's requests; those of an instance, or those that are resolved, if asked.

    The compute service, when it asks for an instance's, is answered as soon as they are bound, or after :data:`HELD_S`.
    """
    asked: ArqQuery = call.query
    if asked.bind_state not in (None, "", "resolved"):
        raise BadRequest("bad-bind-state", f"bind_state '{asked.bind_state}' is not known; the only one is 'resolved'.")
    instance = None if asked.instance is None else checked(asked.instance, "The instance's uuid")
    limits = page(call)

    def look() -> list[Arq]:
        return engine.list_arqs(call.db, call.who, instance=instance, resolved=bool(asked.bind_state), page=limits)

    found = look()
    if instance is not None and _may_hold(call) and engine.is_binding(found):
        with call.site.parking.place() as free:
            if free:
                engine.wait_bound(call.db, call.who, instance, seconds=HELD_S)
        found = look()
    return Listed([shape(call, arq) for arq in found], next_links(call, limits.limit, found))


def _may_hold(call: Call) -> bool:
    """Whether it is the compute service that asks, and hears of binds."""
    return call.who.is_service and call.db.outlets.nova_waits is not None


def show(call: Call) -> Shape:
    """One request; somebody else's is not there."""
    return shape(
        call, engine.get_arq(call.db, call.who, checked(call.params["uuid"], "The accelerator request's uuid"))
    )


def create(call: Call) -> Listed:
    """One request per accelerator the profile asks for."""
    new: NewArqs = call.body
    return Listed([shape(call, arq) for arq in engine.create_arqs(call.db, call.who, new.device_profile_name)])


def update(call: Call) -> None:
    """Bind or unbind, all or nothing."""
    binds, unbinds = arq_patch.read(call)
    if binds:
        binding.bind(call.db, call.who, binds)
    else:
        binding.unbind(call.db, call.who, unbinds)


def update_one(call: Call) -> None:
    """The same for one, as openstacksdk and the ``openstack`` commands ask: the body names it again."""
    uuid = call.params["uuid"]
    for other in call.body:
        if (canonical(other) or other) != (canonical(uuid) or uuid):
            raise BadRequest(
                "patch-path",
                f"The path names {uuid}, the body {other}; leave the last part of the path out to change several.",
            )
    update(call)


def delete_listed(call: Call) -> None:
    """Delete by uuid or by instance."""
    asked: DeleteQuery = call.query
    if bool(asked.arqs) == bool(asked.instance):
        raise BadRequest(
            "arqs-or-instance", "Say which accelerator requests: either '?arqs=uuid1,uuid2' or '?instance=uuid'."
        )
    if asked.instance:
        engine.delete_arqs_of_instance(call.db, call.who, checked(asked.instance, "The instance's uuid"))
        return
    _delete(call, asked.arqs or "")


def delete_one(call: Call) -> None:
    """Delete the one in the path; or several, separated by commas, as in Cyborg."""
    _delete(call, call.params["uuid"])


def _delete(call: Call, listed: str) -> None:
    uuids = [text for text in listed.split(",") if text]
    if not uuids:
        raise BadRequest("arqs-or-instance", "The list of accelerator requests to delete is empty.")
    engine.delete_arqs(call.db, call.who, uuids)


def shape(call: Call, arq: Arq) -> Shape:
    """A request as clients see it."""
    return Shape(
        uuid=arq.uuid,
        state=arq.shown_state,
        device_profile_name=arq.profile_name,
        device_profile_group_id=arq.group_id,
        hostname=arq.hostname,
        device_rp_uuid=arq.device_rp_uuid,
        instance_uuid=arq.instance_uuid,
        project_id=arq.project_id,
        attach_handle_type=arq.attach_handle_type,
        attach_handle_uuid=arq.attach_handle_uuid,
        attach_handle_info=arq.attach_handle_info,
        links=self_link(call, "accelerator_requests", arq.uuid),
        created_at=stamp(arq.created_at),
        updated_at=stamp(arq.updated_at),
    )
