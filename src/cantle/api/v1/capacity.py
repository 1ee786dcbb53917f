"""``/v1/capacity``: what is free where, and why the rest is not."""

from __future__ import annotations

import msgspec

from cantle.api.call import Call
from cantle.engine import capacity as engine
from cantle.model.capacity import Capacity


class Listed(msgspec.Struct, frozen=True):
    """One entry per deployable."""

    capacity: list[Capacity]


def list_all(call: Call) -> Listed:
    """All deployables with their units counted."""
    return Listed(engine.list_capacity(call.db))
