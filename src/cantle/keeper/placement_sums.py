"""What several groups of one request want of one host together, against what Placement lets one request have of its providers.

Placement adds up what groups take of one provider, and compares the sum with ``max_unit`` (``_check_capacity`` of its
``resource_provider``, and ``_exceeds_capacity`` of its allocation candidates). So two groups of one unit each do not fit on a provider that
gives one unit at once, though each of them does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cantle.model.provider import Inventory
from cantle.model.request import Request
from cantle.scheduling.explain import Why


@dataclass(frozen=True, slots=True)
class Stock:
    """A provider that would do for some group: how much it has left of its class, and how much one request may have of it."""

    resource_class: str
    left: int
    max_unit: int


def left_of(stock: Inventory, used: int) -> int:
    """How much of an inventory can still be allocated."""
    return int((stock.total - stock.reserved) * stock.allocation_ratio) - used


def of_sums(asked: Request, stocks: Sequence[Stock]) -> Why | None:
    """Why the groups' sums alone are more than a host gives; None where it is something else that keeps them apart.

    :param stocks: of the host, every provider that would do for some group.
    """
    wanted: Counter[str] = Counter()
    for group in asked.groups:
        wanted.update(dict(group.amounts))
    for name, units in sorted(wanted.items()):
        there = [one for one in stocks if one.resource_class == name]
        left = sum(one.left for one in there)
        if left < units:
            return Why(
                "too-few-together", f"has {left} {name} left in Placement, {units} wanted together", "ask for fewer"
            )
        at_once = sum(min(one.left, one.max_unit) for one in there)
        if at_once < units:
            most = max(one.max_unit for one in there)
            what = f"gives one request at most {most} {name} of one provider, {at_once} in all, {units} wanted together"
            return Why("not-so-many-at-once", what, "make a server for each, or raise [placement] vgpu_max_unit")
    return None
