"""``/v1/hosts``: the machines with an agent."""

from __future__ import annotations

from typing import Any

import msgspec

from cantle.api.call import Call
from cantle.api.v1 import collection
from cantle.api.v2.resource import Link, stamp
from cantle.engine import host as engine
from cantle.model.host import Host
from cantle.model.problem import Problem


class HostQuery(collection.CollectionQuery, frozen=True, kw_only=True):
    """``up``: those heard from lately, or those that were not. The marker is a host's name."""

    hostname: str | None = None
    up: bool | None = None


class Publication(msgspec.Struct, frozen=True):
    """How far a host is published in Placement; the words are those of :class:`cantle.model.host.Publication`."""

    synced_at: str | None
    pending: str | None
    code: str | None
    error: str | None


class Shape(msgspec.Struct, frozen=True):
    """A host on the wire; the words are those of :class:`cantle.model.host.Host`. ``sockets``: by memory node; null for one whose socket is
    not known, and null as a whole where the agent told none."""

    hostname: str
    state: str
    up: bool
    generation: int
    devices: int
    conditions: tuple[Problem, ...]
    problems: tuple[Problem, ...]
    last_seen: str | None
    created_at: str | None
    agent_version: str | None
    clock_skew: int | None
    drained_at: str | None
    drained_by: str | None
    frozen_at: str | None
    frozen_reason: str | None
    placement: Publication | None = None
    sockets: dict[str, int | None] | None = None


class NewName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client sends to rename a host."""

    hostname: str


class Listed(msgspec.Struct, frozen=True):
    """A list of hosts."""

    hosts: list[Shape]
    hosts_links: list[Link] = []


def list_all(call: Call) -> dict[str, Any]:
    """Hosts, with what their last reports complained about."""
    asked: HostQuery = call.query
    limits = collection.page(call, sort_key="hostname")
    found = engine.list_hosts(call.db, hostname=asked.hostname, up=asked.up, page=limits)
    return collection.answer(call, "hosts", limits, found, _shape, kind=Shape, marker=lambda host: host.hostname)


def show(call: Call) -> Shape:
    """One host."""
    return _shape(engine.get_host(call.db, call.params["host"]))


def drain(call: Call) -> Shape:
    """Lend nothing new on a host; what is lent stays."""
    return _shape(engine.drain(call.db, call.who, call.params["host"]))


def undrain(call: Call) -> Shape:
    """Lend on a host again."""
    return _shape(engine.undrain(call.db, call.who, call.params["host"]))


def confirm(call: Call) -> Shape:
    """A person has looked: the host goes on."""
    return _shape(engine.confirm(call.db, call.who, call.params["host"]))


def rename(call: Call) -> Shape:
    """Let a host go by another name."""
    new: NewName = call.body
    return _shape(engine.rename(call.db, call.who, call.params["host"], new.hostname))


def forget(call: Call) -> None:
    """Take a host out that lends nothing and is down."""
    engine.forget(call.db, call.who, call.params["host"])


def _publication(host: Host) -> Publication | None:
    known = host.placement
    if known is None:
        return None
    return Publication(stamp(known.synced_at), known.pending, known.code, known.error)


def _shape(host: Host) -> Shape:
    return Shape(
        hostname=host.hostname,
        state=host.state,
        up=host.up,
        generation=host.generation,
        devices=host.devices,
        conditions=host.conditions,
        problems=host.problems,
        last_seen=stamp(host.last_seen),
        created_at=stamp(host.created_at),
        agent_version=host.agent_version,
        clock_skew=None if host.clock_skew is None else round(host.clock_skew),
        drained_at=stamp(host.drained_at),
        drained_by=host.drained_by,
        frozen_at=stamp(host.frozen_at),
        frozen_reason=host.frozen_reason,
        placement=_publication(host),
        sockets=None if host.sockets is None else {str(node): socket for node, socket in host.sockets.items()},
    )
