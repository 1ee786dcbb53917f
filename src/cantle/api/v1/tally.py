"""``/v1/capacity/states``: what became of every unit, by host and class."""

from __future__ import annotations

import msgspec

from cantle.api.call import Call
from cantle.engine import tally as engine


class TallyQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``hostname``: on this host only."""

    hostname: str | None = None


class Shape(msgspec.Struct, frozen=True):
    """Units of one class on one host; the words are those of :class:`cantle.model.tally.Tally`. ``inventory`` is their sum."""

    hostname: str
    resource_class: str
    inventory: int
    lendable: int
    lent: int
    releasing: int
    cleaning: int
    quarantined: int
    missing: int
    withheld: int


class Listed(msgspec.Struct, frozen=True):
    """All classes of all hosts."""

    states: list[Shape]


def show(call: Call) -> Listed:
    """Each unit is counted once."""
    asked: TallyQuery = call.query
    return Listed(
        [
            Shape(
                hostname=one.hostname,
                resource_class=one.resource_class,
                inventory=one.inventory,
                lendable=one.lendable,
                lent=one.lent,
                releasing=one.releasing,
                cleaning=one.cleaning,
                quarantined=one.quarantined,
                missing=one.missing,
                withheld=one.withheld,
            )
            for one in engine.count(call.db, asked.hostname)
        ]
    )
