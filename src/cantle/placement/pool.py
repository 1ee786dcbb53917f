"""Which whole cards of a host are interchangeable, and so offered together as one provider. Pure.

One group ``resources:PGPU=8`` can be met by a pool alone, and Placement's search for candidates stays flat: with a provider for each of
eight identical cards it tries them in every order.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cantle.model import uuids
from cantle.model.device import Mode
from cantle.model.naming import custom
from cantle.placement.wanted import Part

#: Fewer interchangeable cards make no new pool; a pool that has shrunk stays one.
FEWEST = 2


@dataclass(frozen=True, slots=True)
class Card:
    """A part that may be pooled, with what it must have in common with others.

    :param number: of its deployable.
    :param bound: units of it that requests have, by the provider that they were bound at.
    """

    number: int
    part: Part
    mode: str
    model: str
    numa_node: int | None
    bound: Mapping[str, int] = field(default_factory=dict)

    def bound_elsewhere(self, provider: str) -> int:
        """Units of it that requests have whose allocation is at another provider than this one."""
        return sum(count for at, count in self.bound.items() if at != provider)

    @property
    def own(self) -> int:
        """Units of it that requests have which were bound at its own provider."""
        return self.bound.get(self.part.uuid, 0)

    @property
    def elsewhere(self) -> int:
        """Units of it that requests have which were bound at a pool."""
        return self.bound_elsewhere(self.part.uuid)

    @property
    def key(self) -> str | None:
        """The same for interchangeable cards; None for what is never pooled."""
        if self.mode != Mode.PASSTHROUGH or not self.part.attachable or self.part.offered != 1:
            return None
        facts = [self.part.resource_class, self.model, str(self.numa_node), *sorted(self.part.traits)]
        return hashlib.sha256("\0".join(facts).encode()).hexdigest()


def grouped(cards: Sequence[Card], standing: Mapping[int, tuple[str, str]]) -> dict[int, tuple[str, str]]:
    """By number of the deployable, uuid and key of its pool.

    :param standing: the same as it is now. A card that does not change, and one that is not offered for the moment, stays in its pool. One
        whose cards all change, as by a new trait, stays that of most of them.
    """
    pools = _keys(cards, standing)
    key_of = {pool: key for key, pool in pools.items()}
    by_key: dict[str, list[Card]] = defaultdict(list)
    found: dict[int, tuple[str, str]] = {}
    for card in cards:
        key = card.key
        if key is not None:
            by_key[key].append(card)
        elif card.number in standing and card.part.offered == 0:
            pool, _key = standing[card.number]
            found[card.number] = (pool, key_of[pool])
    for key, some in by_key.items():
        if key in pools or len(some) >= FEWEST:
            pool = pools.get(key) or uuids.new()
            found |= {card.number: (pool, key) for card in some}
    return found


def _keys(cards: Sequence[Card], standing: Mapping[int, tuple[str, str]]) -> dict[str, str]:
    """By key, the pool that has it."""
    there = {card.key for card in cards}
    found = {key: pool for pool, key in standing.values() if key in there}
    votes = Counter((standing[card.number][0], key) for card in cards if (key := card.key) and card.number in standing)
    for (pool, key), _count in votes.most_common():
        if pool not in found.values():
            found.setdefault(key, pool)
    return found | {key: pool for pool, key in standing.values() if pool not in found.values()}


def pooled(hostname: str, cards: Sequence[Card], pools: Mapping[int, tuple[str, str]]) -> list[Part]:
    """The parts of a host, those of a pool put together. A member that is out of service is one unit reserved.

    Where the shape was changed while something was lent, its allocation is at the former provider until its end: reserved here. If
    that is a pool that goes on, it offers a card less meanwhile: with one more in its total it would offer one too many from the release
    until somebody publishes it.
    """
    alone = [
        replace(card.part, held_back=card.part.held_back + card.elsewhere) for card in cards if card.number not in pools
    ]
    members: dict[str, list[Card]] = defaultdict(list)
    for card in cards:
        if card.number in pools:
            members[pools[card.number][0]].append(card)
    return alone + [_together(hostname, pool, some) for pool, some in members.items()]


def _together(hostname: str, pool: str, some: Sequence[Card]) -> Part:
    offered = [card for card in some if not card.part.vanished and card.part.offered]
    first = (offered or list(some))[0].part
    idle = sum(max(0, card.part.offered - card.part.lent) for card in offered if card.part.out_of_service is not None)
    reasons = sorted({card.part.out_of_service for card in offered if card.part.out_of_service is not None})
    return Part(
        uuid=pool,
        name=pool_name(hostname, pool, (offered or list(some))[0]),
        resource_class=first.resource_class,
        traits=first.traits,
        offered=sum(card.part.offered for card in offered),
        lent=sum(card.part.lent for card in some),
        held_back=idle + sum(card.part.held_back + card.bound_elsewhere(pool) for card in some),
        out_of_service="; ".join(reasons) if reasons and all(card.part.out_of_service for card in offered) else None,
        vanished=not offered,
    )


def pool_name(hostname: str, pool: str, card: Card) -> str:
    """``compute-1_PGPU_A100_NUMA0_1f3a``: for people; no other provider has it."""
    words = [card.part.resource_class, custom(card.model or "card").removeprefix("CUSTOM_")]
    words += [] if card.numa_node is None else [f"NUMA{card.numa_node}"]
    return "_".join([hostname, *words, pool[:4]])[:200]
