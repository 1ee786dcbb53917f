"""``/v1/who/{text}``: who has a card or unit, or what an instance, lease or workload has."""

from __future__ import annotations

import msgspec

from cantle.api.call import Call
from cantle.api.v1 import audit
from cantle.api.v2.resource import stamp
from cantle.engine import who as engine
from cantle.model.who import Holding


class Unit(msgspec.Struct, frozen=True):
    """A unit and who has it; the words are those of :class:`cantle.model.who.Holding`."""

    hostname: str
    device: str
    model: str
    unit_uuid: str
    attach_type: str
    resource_class: str
    state: str
    reason: str | None
    project_id: str | None
    by: str | None
    since: str | None
    arq_uuid: str | None
    instance_uuid: str | None
    lease_uuid: str | None
    workload: str | None
    guest: str | None
    expires_at: str | None


class Shape(msgspec.Struct, frozen=True):
    """``now``: what is lent or being taken back; ``past``: what was done to it lately, the latest first."""

    now: list[Unit]
    past: list[audit.Shape]


def show(call: Call) -> Shape:
    """Whatever end the question begins at."""
    found = engine.find(call.db, call.who, call.params["text"])
    return Shape([_unit(one) for one in found.now], [audit.shape(one) for one in found.past])


def _unit(one: Holding) -> Unit:
    return Unit(
        hostname=one.hostname,
        device=one.device,
        model=one.model,
        unit_uuid=one.unit_uuid,
        attach_type=one.attach_type,
        resource_class=one.resource_class,
        state=one.state,
        reason=one.reason,
        project_id=one.project_id,
        by=one.by,
        since=stamp(one.since),
        arq_uuid=one.arq_uuid,
        instance_uuid=one.instance_uuid,
        lease_uuid=one.lease_uuid,
        workload=one.workload,
        guest=one.guest,
        expires_at=stamp(one.expires_at),
    )
