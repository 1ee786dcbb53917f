"""``/v1/leases/{uuid}/move`` and ``/can-move``: a lease on another host."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cantle.api.call import Call
from cantle.api.v1 import explain, lease
from cantle.engine import move as engine
from cantle.errors import BadRequest
from cantle.model.uuids import checked


class CanMoveQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``host``: the host that is to take the lease over; it must be there. ``numa_nodes``: the guest's memory nodes there, separated by
    commas."""

    host: str | None = None
    numa_nodes: str | None = None


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client sends. ``stopped``: the caller's word that the workload does not run. ``numa_nodes``: the guest's memory nodes there,
    empty: the cards must be near each other only."""

    host: Annotated[str, msgspec.Meta(min_length=1)]
    stopped: bool = False
    numa_nodes: lease.Nodes = []


def can(call: Call) -> explain.Shape:
    """What that host lacks for it, if anything. Changes nothing."""
    asked: CanMoveQuery = call.query
    uuid = _uuid(call)
    if not asked.host:
        raise BadRequest("bad-argument", "host is missing: say which host is to take the lease over.", argument="host")
    nodes = explain.nodes(asked.numa_nodes)
    found = engine.can_move(call.db, call.who, uuid, to=asked.host, aliases=call.site.settings.aliases, nodes=nodes)
    return explain.told(call, found)


def move(call: Call) -> lease.Shape:
    """Claim there, give back here."""
    new: Move = call.body
    moved = engine.move_lease(
        call.db,
        call.who,
        _uuid(call),
        to=new.host,
        stopped=new.stopped,
        aliases=call.site.settings.aliases,
        nodes=new.numa_nodes,
    )
    return lease.shape(call, moved)


def _uuid(call: Call) -> str:
    return checked(call.params["uuid"], "The lease's uuid")
