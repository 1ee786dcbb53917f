"""Whether all asks fit on one host together, and how: a small search that gives up nothing it could have found."""

from __future__ import annotations

from collections.abc import Sequence

from cantle.scheduling.offer import Ask, Offer, mismatch

#: Steps before a search is given up as too tangled. Cards of a host are few kinds, and equal ones are tried once: real hosts need dozens.
MAX_STEPS = 20_000


def fit(asks: Sequence[Ask], offers: Sequence[Offer]) -> list[Offer] | None:
    """An offer of one host for each ask, in the order of the asks; None when they do not fit together.

    Least used first, then by address, so that the same question has the same answer.
    """
    ranked = sorted(
        (offer for offer in offers if offer.out_of_service is None), key=lambda offer: (offer.used, offer.address)
    )
    suitable = [tuple(mismatch(ask, offer) is None for offer in ranked) for ask in asks]
    hardest = sorted(range(len(asks)), key=lambda number: (-asks[number].amount, sum(suitable[number]), number))
    search = _Search([asks[number].amount for number in hardest], [suitable[number] for number in hardest])
    found = search.place(0, [offer.free for offer in ranked])
    if found is None:
        return None
    return [ranked[index] for _, index in sorted(zip(hardest, found, strict=True))]


class _Search:
    """Depth first, hardest ask first. Offers that are equal for all asks still to come are tried once, and a rest that failed is
    remembered: sixteen identical cards are one case, not sixteen factorial."""

    def __init__(self, amounts: Sequence[int], suitable: Sequence[tuple[bool, ...]]) -> None:
        self._amounts = amounts
        self._suitable = suitable
        self._failed: set[tuple[object, ...]] = set()
        self._steps = 0
        # For each depth, what an offer is worth to the asks from there on.
        self._kinds = [list(zip(*suitable[depth:], strict=True)) for depth in range(len(amounts))]

    def place(self, depth: int, free: list[int]) -> list[int] | None:
        """Indexes of offers for the asks from ``depth`` on, with so much free of each offer."""
        if depth == len(self._amounts):
            return []
        kinds = self._kinds[depth]
        rest = (depth, *sorted(zip(kinds, free, strict=True)))
        if rest in self._failed or self._steps >= MAX_STEPS:
            return None
        self._steps += 1
        tried = set()
        for index, left in enumerate(free):
            case = (kinds[index], left)
            if not self._suitable[depth][index] or left < self._amounts[depth] or case in tried:
                continue
            tried.add(case)
            free[index] -= self._amounts[depth]
            found = self.place(depth + 1, free)
            free[index] += self._amounts[depth]
            if found is not None:
                return [index, *found]
        self._failed.add(rest)
        return None
