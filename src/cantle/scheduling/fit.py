"""Whether a request fits on one host, and how: a small search that gives up nothing it could have found."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from cantle.model.kind import Kind, mismatch, tier
from cantle.model.numa import NumaPolicy, allows
from cantle.model.offer import Offer
from cantle.model.request import Packing, Request, RequestGroup

#: Steps before a search is given up as too tangled. Cards of a host are few kinds, and equal ones are tried once: real hosts need dozens.
MAX_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Ask:
    """So many units of one card: a group, or one unit of it where they need not come from one card.

    :param group: position of the group in the request.
    :param apart: two asks that share one of these numbers come from different cards.
    """

    group: int
    amount: int
    apart: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Taken:
    """Units that are taken of an offer for a group, by its position. ``companion``: nobody asked for it, but it belongs to the unit of a
    card that is taken."""

    group: int
    offer: Offer
    amount: int
    companion: bool = False


def asks(request: Request) -> list[Ask]:
    """What a request asks single cards for, in order. Group by group: 0 is the mark of ``isolate``, others of groups set apart."""
    found: list[Ask] = []
    for position, group in enumerate(request.groups):
        isolated = frozenset({0}) if request.isolate else frozenset[int]()
        if group.together:
            found.append(Ask(position, group.units, isolated))
        elif group.apart:
            found += [Ask(position, 1, isolated | {position + 1})] * group.units
        else:
            found += [Ask(position, 1, isolated)] * group.units
    return found


def packing(request: Request, kinds: Iterable[Kind]) -> Packing:
    """The packing a request says, else that of what would do: slices are packed, so that whole cards stay free; whole cards spread."""
    said = next((group.packing for group in request.groups if group.packing is not None), None)
    if said is not None:
        return said
    return Packing.PACK if any(kind.sliced for kind in kinds) else Packing.SPREAD


def usable(offers: Sequence[Offer]) -> list[Offer]:
    """Offers in service, without those whose unit of cards is not free as a whole."""
    broken = {offer.unit for offer in offers if offer.unit is not None and not _untouched(offer)}
    return [
        offer for offer in offers if offer.out_of_service is None and (offer.unit is None or offer.unit not in broken)
    ]


def _untouched(offer: Offer) -> bool:
    return offer.out_of_service is None and offer.used == 0 and offer.free > 0


def fit(request: Request, offers: Sequence[Offer], *, nodes: Collection[int] = ()) -> list[Taken] | None:
    """What is taken of one host's offers for a request; None when it does not fit. The same question has the same answer. What failed a
    moment ago is taken only where nothing fits without it, near or far.

    :param nodes: the guest's memory nodes; empty: cards must be near each other only.
    """
    right = usable(offers)
    units = {offer.unit for offer in offers if offer.failing} - {None}
    well = [offer for offer in right if not offer.failing and offer.unit not in units]
    found = _fit(request, well, offers, nodes) if len(well) < len(right) else None
    return found if found is not None else _fit(request, right, offers, nodes)


def _fit(
    request: Request, among: Sequence[Offer], offers: Sequence[Offer], nodes: Collection[int]
) -> list[Taken] | None:
    """:param offers: all of the host, for companions."""
    wanted = asks(request)
    ranked = _ranked(request, among)
    right = {
        (position, offer.deployable_id): mismatch(group, offer.kind) is None
        for position, group in enumerate(request.groups)
        for offer in ranked
    }
    if any(not any(right[ask.group, offer.deployable_id] for offer in ranked) for ask in set(wanted)):
        return None
    could = [
        offer for offer in ranked if offer.room and any(right[ask.group, offer.deployable_id] for ask in set(wanted))
    ]
    if sum(ask.amount for ask in wanted) > sum(offer.room for offer in could):
        return None  # or the search would try each way of being too few
    for near in _nearness(request, could, nodes):
        suitable = [
            tuple(right[ask.group, offer.deployable_id] and near(request.groups[ask.group], offer) for offer in ranked)
            for ask in wanted
        ]
        found = _search(wanted, suitable, ranked)
        if found is not None:
            return _taken(wanted, found, ranked, offers)
    return None


def _ranked(request: Request, offers: Sequence[Offer]) -> list[Offer]:
    """Best first: those that do not fail, then preferred kinds, then the fullest card (or the emptiest), then by address."""
    sign = 1 if packing(request, (offer.kind for offer in offers)) is Packing.PACK else -1

    def key(offer: Offer) -> tuple[bool, int, int, str, int]:
        liked = min(tier(group, offer.kind) for group in request.groups)
        return offer.failing, liked, sign * offer.free, offer.address, offer.deployable_id

    return sorted(offers, key=key)


class _Near:
    """Whether an offer is near enough for a group: on one of the nodes, or as far as its policy allows."""

    def __init__(self, nodes: Collection[int], *, strict: bool) -> None:
        self._nodes = nodes
        self._strict = strict

    def __call__(self, group: RequestGroup, offer: Offer) -> bool:
        policy = NumaPolicy.REQUIRED if self._strict else group.numa or NumaPolicy.PREFERRED
        return allows(policy, offer.numa_node, self._nodes, offer.sockets)


def _nearness(request: Request, offers: Sequence[Offer], nodes: Collection[int]) -> list[_Near]:
    """What to try, strictest first: everything on the nodes (on each node in turn, if the guest has none: that of the best card first, or
    a fuller card of another node would not be packed), then what policies allow.

    :param offers: those that would do for some group, best first.
    """
    known = dict.fromkeys(offer.numa_node for offer in offers if offer.numa_node is not None)
    places: list[Collection[int]] = [nodes] if nodes else [[node] for node in known] or [[]]
    tries = [_Near(place, strict=True) for place in places if place]
    if not nodes and len(asks(request)) == 1:
        tries = []  # one card is near to itself: which node it is on decides nothing
    return tries + [_Near(place, strict=False) for place in places]


def _taken(
    wanted: Sequence[Ask], found: Sequence[int], ranked: Sequence[Offer], offers: Sequence[Offer]
) -> list[Taken]:
    taken = [Taken(ask.group, ranked[index], ask.amount) for ask, index in zip(wanted, found, strict=True)]
    ours = {one.offer.deployable_id for one in taken}
    opened = {one.offer.unit: one.group for one in reversed(taken) if one.offer.unit is not None}
    for offer in sorted(offers, key=lambda one: (one.address, one.deployable_id)):
        if offer.unit in opened and offer.deployable_id not in ours:
            taken.append(Taken(opened[offer.unit], offer, offer.free, companion=True))
    return taken


def _search(wanted: Sequence[Ask], suitable: Sequence[tuple[bool, ...]], ranked: Sequence[Offer]) -> list[int] | None:
    hardest = sorted(range(len(wanted)), key=lambda number: (-wanted[number].amount, sum(suitable[number]), number))
    search = _Search([wanted[number] for number in hardest], [suitable[number] for number in hardest])
    found = search.place([offer.room for offer in ranked], [frozenset()] * len(ranked))
    return None if found is None else [index for _, index in sorted(zip(hardest, found, strict=True))]


class _Search:
    """Depth first, hardest ask first. Offers that are equal for all asks still to come are tried once, and a rest that failed is
    remembered: sixteen identical cards are one case, not sixteen factorial."""

    def __init__(self, wanted: Sequence[Ask], suitable: Sequence[tuple[bool, ...]]) -> None:
        self._asks = wanted
        self._suitable = suitable
        self._failed: set[tuple[object, ...]] = set()
        self._steps = 0
        # For each depth, what an offer is worth to the asks from there on.
        self._kinds = [list(zip(*suitable[depth:], strict=True)) for depth in range(len(wanted))]

    def place(self, free: list[int], marks: list[frozenset[int]]) -> list[int] | None:
        """Indexes of offers for the asks, with so much free of each offer. A loop: a request may have more asks than Python has frames.

        :param marks: for each offer those of the asks that it serves already.
        """
        taken: list[tuple[int, frozenset[int]]] = []  # an offer, and the marks that it had before
        ways = [self._ways(0, free, marks)]
        while len(taken) < len(self._asks):
            index = next(ways[-1], None)
            if index is not None:
                ask = self._asks[len(taken)]
                taken.append((index, marks[index]))
                free[index] -= ask.amount
                marks[index] |= ask.apart
                ways.append(self._ways(len(taken), free, marks))
                continue
            ways.pop()
            if not taken:
                return None
            index, before = taken.pop()
            free[index] += self._asks[len(taken)].amount
            marks[index] = before
        return [index for index, _ in taken]

    def _ways(self, depth: int, free: list[int], marks: list[frozenset[int]]) -> Iterator[int]:
        """Offers that could serve the ask of this depth, one of each case. Whoever takes one puts it back before he asks for the next."""
        cases = list(zip(self._kinds[depth], free, map(sorted, marks), strict=True))
        rest = (depth, repr(sorted(cases)))
        if rest in self._failed or self._steps >= MAX_STEPS:
            return
        self._steps += 1
        ask, tried = self._asks[depth], set[str]()
        for index, left in enumerate(free):
            case = repr(cases[index])
            if (
                self._suitable[depth][index]
                and left >= ask.amount
                and not marks[index] & ask.apart
                and case not in tried
            ):
                tried.add(case)
                yield index
        self._failed.add(rest)
