"""Which cards of a host are offered as one: now, and as the configuration wants it. Pure.

A card that is published one way changes to the other through Placement's reshaper. Until that has happened the database has both, so that
whatever Placement hands out meanwhile can be bound.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cantle.placement.exchange import Trade
from cantle.placement.pool import Card, grouped

#: By number of the deployable, uuid and key of the pool it is in.
Pools = Mapping[int, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Shape:
    """See the module.

    :param before: as the database has it.
    :param wanted: as it shall be.
    :param trade: providers between which cards move for that, or may still have to.
    """

    before: Pools
    wanted: Pools
    trade: Trade = field(default_factory=Trade)

    @property
    def meanwhile(self) -> Pools:
        """What the database has until Placement has been told."""
        return {**self.before, **self.wanted}


def shape(cards: Sequence[Card], before: Pools, published: Collection[str], *, pool: bool, keep: bool) -> Shape:
    """The shape of a host.

    :param published: uuids of the providers that are remembered.
    :param pool: interchangeable cards are offered as one.
    :param keep: what is published stays as it is.
    """
    grown = grouped(cards, before)
    if keep:
        return Shape(before, {number: one for number, one in grown.items() if _pool(before, number) == one[0]})
    wanted = grown if pool else {}
    numbered = {card.number: card for card in cards if card.key is not None}
    joining = [card for number, card in numbered.items() if number in wanted and card.part.uuid in published]
    leaving = [
        card
        for number, card in numbered.items()
        if number in before and _pool(wanted, number) != before[number][0] and before[number][0] in published
    ]
    if not joining and not leaving:
        return Shape(before, wanted)
    moving = [*joining, *leaving]
    pools = {one[0] for card in moving for one in (before.get(card.number), wanted.get(card.number)) if one}
    counted = sum(card.own for card in joining) + sum(card.elsewhere for card in leaving)
    heirs: dict[str, tuple[str, ...]] = {card.part.uuid: (wanted[card.number][0],) for card in joining}
    for card in sorted(leaving, key=lambda card: (card.part.lent, card.number)):
        former = before[card.number][0]
        heirs[former] = (*heirs.get(former, ()), _pool(wanted, card.number) or card.part.uuid)
    return Shape(before, wanted, Trade(frozenset(pools | {card.part.uuid for card in moving}), counted, heirs))


def _pool(pools: Pools, number: int) -> str | None:
    return pools[number][0] if number in pools else None
