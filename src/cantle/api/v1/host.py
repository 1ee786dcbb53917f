"""``/v1/hosts``: the machines with an agent."""

from __future__ import annotations

import msgspec

from cantle.api.call import Call
from cantle.api.v2.resource import stamp
from cantle.engine import host as engine
from cantle.model.host import Host
from cantle.model.problem import Problem


class Shape(msgspec.Struct, frozen=True):
    """A host on the wire; the words are those of :class:`cantle.model.host.Host`."""

    hostname: str
    up: bool
    generation: int
    devices: int
    problems: tuple[Problem, ...]
    last_seen: str | None
    created_at: str | None


class Listed(msgspec.Struct, frozen=True):
    """A list of hosts."""

    hosts: list[Shape]


def list_all(call: Call) -> Listed:
    """All hosts, with what their last reports complained about."""
    return Listed([_shape(host) for host in engine.list_hosts(call.db)])


def _shape(host: Host) -> Shape:
    return Shape(
        hostname=host.hostname,
        up=host.up,
        generation=host.generation,
        devices=host.devices,
        problems=host.problems,
        last_seen=stamp(host.last_seen),
        created_at=stamp(host.created_at),
    )
