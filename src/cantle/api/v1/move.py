"""``/v1/leases/{uuid}/move`` and ``/can-move``: a lease on another host."""

from __future__ import annotations

import msgspec

from cantle.api.call import Call
from cantle.api.v1 import explain, lease
from cantle.api.v1.hostname import NamesHost
from cantle.engine import move as engine
from cantle.model.uuids import checked


class CanMoveQuery(NamesHost, frozen=True, kw_only=True):
    """``hostname``: the host that is to take the lease over (also as ``host``); it must be there. ``numa_nodes``: the guest's memory nodes
    there, separated by commas."""

    numa_nodes: str | None = None


class Move(NamesHost, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client sends. ``hostname``: the host that takes it over (also as ``host``). ``stopped``: the caller's word that the
    workload does not run. ``numa_nodes``: the guest's memory nodes there, empty: the cards must be near each other only."""

    stopped: bool = False
    numa_nodes: lease.Nodes = msgspec.field(default_factory=list)


def can(call: Call) -> explain.Shape:
    """What that host lacks for it, if anything. Changes nothing."""
    asked: CanMoveQuery = call.query
    uuid = _uuid(call)
    nodes = explain.nodes(asked.numa_nodes)
    found = engine.can_move(call.db, call.who, uuid, to=asked.needed(), aliases=call.site.settings.aliases, nodes=nodes)
    return explain.told(call, found)


def move(call: Call) -> lease.Shape:
    """Claim there, give back here."""
    new: Move = call.body
    moved = engine.move_lease(
        call.db,
        call.who,
        _uuid(call),
        to=new.needed(),
        stopped=new.stopped,
        aliases=call.site.settings.aliases,
        nodes=new.numa_nodes,
    )
    return lease.shape(call, moved)


def _uuid(call: Call) -> str:
    return checked(call.params["uuid"], "The lease's uuid")
