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
    """A host on the wire; the words are those of :class:`cantle.model.host.Host`."""

    hostname: str
    up: bool
    generation: int
    devices: int
    problems: tuple[Problem, ...]
    last_seen: str | None
    created_at: str | None
    placement: Publication | None = None


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


def _publication(host: Host) -> Publication | None:
    known = host.placement
    if known is None:
        return None
    return Publication(stamp(known.synced_at), known.pending, known.code, known.error)


def _shape(host: Host) -> Shape:
    return Shape(
        hostname=host.hostname,
        up=host.up,
        generation=host.generation,
        devices=host.devices,
        problems=host.problems,
        last_seen=stamp(host.last_seen),
        created_at=stamp(host.created_at),
        placement=_publication(host),
    )
