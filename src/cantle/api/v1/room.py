"""``/v1/capacity/profiles``: how many more of each profile and flavor could be lent now."""

from __future__ import annotations

import msgspec

from cantle.api.call import Call
from cantle.engine import room as engine
from cantle.model.room import Room


class RoomQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``profile``: this profile or flavor only; ``hostname``: this host only."""

    profile: str | None = None
    hostname: str | None = None


class Shape(msgspec.Struct, frozen=True):
    """One profile or flavor on the wire; the words are those of :class:`cantle.model.room.Room`."""

    name: str
    is_flavor: bool
    fits: int
    by_host: dict[str, int]
    problem: str | None


class Listed(msgspec.Struct, frozen=True):
    """One entry per profile and flavor."""

    profiles: list[Shape]


def list_all(call: Call) -> Listed:
    """By name. Each is counted as if it were asked for alone."""
    asked: RoomQuery = call.query
    found = engine.list_room(call.db, aliases=call.site.settings.aliases, name=asked.profile, hostname=asked.hostname)
    return Listed([_shape(room) for room in found])


def _shape(room: Room) -> Shape:
    return Shape(room.name, room.is_flavor, room.fits, dict(room.by_host), room.problem)
