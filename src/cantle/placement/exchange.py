"""Capacity that moves from some providers of a host to others: cards that become a pool, a pool that becomes cards again. Pure.

Written one after the other it would be offered twice in between, or not at all, for as long as Placement is away. So it is one request
to Placement's reshaper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from cantle.errors import CantleError
from cantle.model.provider import Form, Inventory, Record, Wanted
from cantle.placement.difference import Delete, Difference, SetInventories, Step


@dataclass(frozen=True, slots=True)
class Trade:
    """Providers between which capacity may move.

    :param providers: their uuids.
    :param counted: units of what shall go that requests of ours have: reserved where they shall be offered.
    :param heirs: by uuid, where the cards of one go, a card each.
    """

    providers: frozenset[str] = frozenset()
    counted: int = 0
    heirs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class ExchangeHeldUp(Exception):
    """What shall move stays where it is this time; nothing was written yet. ``error`` says why."""

    def __init__(self, error: CantleError) -> None:
        super().__init__(error.message)
        self.error = error


def moves(some: Iterable[Difference]) -> bool:
    """Whether one of these providers is to lose something and another to gain something."""
    changes = [_amount(_after(one)) - _amount(_before(one)) for one in some]
    return any(change < 0 for change in changes) and any(change > 0 for change in changes)


def first(one: Difference) -> tuple[Step, ...]:
    """What is written before the exchange: all but the inventory it shall end with, and its deletion."""
    steps = [step for step in one.steps if not isinstance(step, Delete)]
    return tuple(steps[:-1] if steps and isinstance(steps[-1], SetInventories) else steps)


def exchanged(one: Difference) -> Mapping[str, Inventory] | None:
    """The inventories a provider has after the exchange; None if it takes no part in it."""
    after = _after(one)
    return None if after == _before(one) else after


def gains(one: Difference) -> bool:
    """Whether it has more of something afterwards."""
    return _amount(_after(one)) > _amount(_before(one))


def is_last(one: Difference) -> bool:
    """Whether it is to be deleted after the exchange."""
    return any(isinstance(step, Delete) for step in one.steps)


def in_use(some: Iterable[Difference]) -> int:
    """Units that are still in use of providers that shall not be there any more."""
    return sum(form.total for one in some for form in one.after)


def inherited(trade: Trade, wanted: Mapping[str, Wanted], differences: Mapping[str, Difference]) -> dict[str, Record]:
    """What an operator set of providers that shall not be there any more, remembered where their cards go: by uuid, the records.

    A reservation moves: both sides change in one transaction, so that it moves once, however often the exchange is tried. A ``max_unit``
    is copied, the largest where they differ, unless it was set there too: a card of a former pool carries the pool's, for the next one. A
    trait goes where all cards come from providers that have it. ``min_unit``, step and ratio stay behind: those of many fit no single one.
    """
    found: dict[str, Record] = {}
    for uuid, heirs in trade.heirs.items():
        one = differences[uuid].before if uuid in differences and wanted[uuid].gone else None
        if one is None:
            continue
        there = [heir for heir in heirs if heir in differences]
        for heir in there if one.operator.max_unit else ():
            if differences[heir].before.operator.max_unit is None:
                record = found.get(heir, differences[heir].before)
                most = max(one.operator.max_unit or 0, record.operator.max_unit or 0)
                found[heir] = replace(record, operator=replace(record.operator, max_unit=most))
        if not one.operator.reserved:
            continue
        for heir in there[: one.operator.reserved]:
            record = found.get(heir, differences[heir].before)
            units = min(record.operator.reserved + 1, wanted[heir].total)
            found[heir] = replace(record, operator=replace(record.operator, reserved=units))
        seen = {} if one.seen is None else one.seen.inventories
        # What it has until it goes is counted as ours from here on: else it would be taken for the operator's once more.
        standing = [Form.of(name, it) for name, it in seen.items()]
        found[uuid] = replace(one, operator=replace(one.operator, reserved=0), forms=(*one.forms, *standing))
    for heir, traits in _traits(trade, wanted, differences).items():
        record = found.get(heir, differences[heir].before)
        found[heir] = replace(record, operator=replace(record.operator, traits=record.operator.traits | traits))
    return found


def _traits(
    trade: Trade, wanted: Mapping[str, Wanted], differences: Mapping[str, Difference]
) -> dict[str, frozenset[str]]:
    """By uuid of a provider that is new, the traits that an operator gave each card of it before."""
    cards = Counter(
        (heir, trait)
        for uuid, heirs in trade.heirs.items()
        if uuid in differences and wanted[uuid].gone
        for trait in differences[uuid].before.operator.traits
        for heir in heirs
        if heir in differences and differences[heir].before.seen is None
    )
    found: dict[str, frozenset[str]] = {}
    for (heir, trait), count in cards.items():
        if count >= wanted[heir].total:
            found[heir] = found.get(heir, frozenset()) | {trait}
    return found


def _before(one: Difference) -> Mapping[str, Inventory]:
    return {} if one.before.seen is None else one.before.seen.inventories


def _after(one: Difference) -> Mapping[str, Inventory]:
    found = _before(one)
    for step in one.steps:
        if isinstance(step, SetInventories):
            found = step.inventories
        if isinstance(step, Delete):
            found = {}
    return found


def _amount(inventories: Mapping[str, Inventory]) -> int:
    return sum(one.total for one in inventories.values())
