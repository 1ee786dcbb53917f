"""Why a request cannot be served: for every card the first reason, for every host what is wrong with its cards together; grouped and
counted, with the mend. Pure: hosts are added one after the other, so that a large cloud needs no memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cantle.model.explanation import Explanation, GroupView, Reason
from cantle.model.kind import Kind, mismatch
from cantle.model.numa import NumaPolicy, allows, are_known
from cantle.model.offer import Offer, sockets_of
from cantle.model.request import Request, RequestGroup
from cantle.scheduling.count import shape
from cantle.scheduling.fit import fit, usable

#: Examples that are kept of each reason, and hosts that are named.
EXAMPLES = 3
NAMED = 100

PER_GUEST_MEND = "make a lease for each guest, or raise its label units_per_guest"

#: What is done about a card that is out of service, by code.
MENDS = {
    "in-maintenance": "cantle device enable",
    "not-healthy": "cantle device show says what is wrong with it",
    "host-down": "start the host's agent: cantle host list",
    "host-frozen": "cantle host confirm",
    "host-drained": "cantle host undrain",
    "intent-open": "wait for its host, or cantle device intent show",
}


@dataclass(frozen=True, slots=True)
class Why:
    """One reason: a code, what is so of a card or host, what would mend it."""

    code: str
    what: str
    mend: str


def of_card(
    group: RequestGroup, offer: Offer, broken: Collection[str | None], nodes: Collection[int] = ()
) -> Why | None:
    """The first reason why a card does not do for a group; None when it does, as far as it alone is concerned.

    :param broken: names of units of cards on its host that are not free as a whole.
    """
    if (wrong := mismatch(group, offer.kind)) is not None:
        return Why(wrong.code, wrong.what, wrong.mend)
    if offer.out_of_service is not None:
        code, words = offer.out_of_service
        return Why(code, words, MENDS.get(code, "cantle device show"))
    needed = group.units if group.together else 1
    if offer.free < needed:
        return _too_few(offer, needed)
    if offer.room < needed:
        what = f"gives one guest {offer.room} of its units at most, {needed} of one card wanted"
        return Why("too-few-per-guest", what, PER_GUEST_MEND)
    if offer.unit is not None and offer.unit in broken:
        what = f"belongs to the unit {offer.unit!r}, of which another card is not free"
        return Why("unit-not-whole", what, "wait for the other cards of the unit")
    return _far(group, offer, nodes)


def _too_few(offer: Offer, needed: int) -> Why:
    if offer.free == 0 and (offer.used == 0 or offer.total == 0):
        return Why("offers-nothing", "offers nothing now", "cantle device list has the reason of each")
    if offer.free == 0:
        return Why("all-lent", "is lent completely", "wait, or release a lease: cantle lease list")
    if offer.free + offer.used < needed:
        what = f"has {_units(offer.free + offer.used)} in all, {needed} of one card wanted"
        return Why("too-few-free", what, "ask for fewer of one card; --count, or a group for each, means several cards")
    return Why("too-few-free", f"has {offer.free} free of one card, {needed} wanted", "ask for fewer of one card")


def _units(number: int) -> str:
    return "1 unit" if number == 1 else f"{number} units"


def _far(group: RequestGroup, offer: Offer, nodes: Collection[int]) -> Why | None:
    if group.numa is None:
        return None
    if offer.numa_node is None and group.numa in (NumaPolicy.REQUIRED, NumaPolicy.SOCKET):
        return Why("numa-unknown", "is on a NUMA node that its host does not know", "ask with legacy or preferred")
    if not nodes or allows(group.numa, offer.numa_node, nodes, offer.sockets):
        return None
    if group.numa is NumaPolicy.SOCKET and not are_known(offer.sockets):
        what = f"is on NUMA node {offer.numa_node} of a host that does not tell the socket of each node"
        return Why("sockets-unknown", what, "ask with preferred, or for other nodes; cantle host show has the sockets")
    return Why("numa-other", f"is on NUMA node {offer.numa_node}", "ask with preferred, or for other nodes")


def broken_units(offers: Sequence[Offer]) -> frozenset[str | None]:
    """Names of units of cards that are not free as a whole."""
    there = {offer.unit for offer in offers if offer.unit is not None}
    return frozenset(there - {offer.unit for offer in usable(offers)})


def of_host(request: Request, offers: Sequence[Offer], nodes: Collection[int] = ()) -> Why | None:
    """Why a host does not do though each group finds a card on it; None when it does, or when a group finds none."""
    broken = broken_units(offers)
    for group in request.groups:
        if not any(of_card(group, offer, broken, nodes) is None for offer in offers):
            return None
    if fit(request, offers, nodes=nodes) is not None:
        return None
    for group in _merged(request):
        right = [offer for offer in offers if of_card(group, offer, broken, nodes) is None]
        if (why := _of_group(group, right)) is not None:
            return why
    if fit(_near(request), offers) is not None:
        return Why("numa-apart", "has enough, but not on NUMA nodes that are near enough", "ask with preferred")
    if request.isolate and fit(replace(_near(request), isolate=False), offers) is not None:
        return Why("not-isolated", "has too few different cards for groups that are isolated", "group_policy=none")
    return Why("not-together", "has cards for each group, but not for all of them together", "ask for fewer")


def _merged(request: Request) -> list[RequestGroup]:
    """The groups, those that ask for the same put together: their units add up, though each may come from another card."""
    found: dict[RequestGroup, list[RequestGroup]] = {}
    for group in request.groups:
        found.setdefault(replace(group, name=""), []).append(group)
    return [some[0] if len(some) == 1 else _together(some) for some in found.values()]


def _together(groups: Sequence[RequestGroup]) -> RequestGroup:
    one = groups[0]
    return replace(
        one,
        name=" and ".join(list(dict.fromkeys(group.name for group in groups))[:3]),
        amounts=tuple((name, amount * len(groups)) for name, amount in one.amounts),
        count=one.count * len(groups),
        together=False,
    )


def _of_group(group: RequestGroup, right: Sequence[Offer]) -> Why | None:
    """Why the cards that would do for a group are not enough for it, wherever they are."""
    free = sum(offer.free for offer in right)
    if free < group.units:
        return Why("too-few-together", f"has {free} for {group.name}, {group.units} wanted", "ask for fewer")
    room = sum(offer.room for offer in right)
    if room < group.units:
        what = f"gives one guest {room} of its units at most, {group.units} wanted for {group.name}"
        return Why("too-few-per-guest", what, PER_GUEST_MEND)
    if group.apart and len(right) < group.units:
        what = f"has {len(right)} different cards for {group.name}, {group.units} wanted, each of another card"
        return Why("too-few-apart", what, "ask for fewer, or let them share a card")
    return None


def _near(request: Request) -> Request:
    return replace(request, groups=tuple(replace(group, numa=None) for group in request.groups))


@dataclass(slots=True)
class _Tally:
    why: Why
    cards: int = 0
    hosts: set[str] = field(default_factory=set)
    crowds: list[Collection[str]] = field(default_factory=list)
    more_hosts: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, hostname: str, card: str = "", cards: int = 0) -> None:
        self.cards += cards
        self.hosts.add(hostname)
        if len(self.examples) < EXAMPLES:
            self.examples.append(f"{hostname} {card}".rstrip())

    def reason(self) -> Reason:
        why = self.why
        hosts = len(self.hosts.union(*self.crowds)) + self.more_hosts
        return Reason(why.code, why.what, why.mend, self.cards, hosts, tuple(self.examples))


class Explainer:
    """Collects reasons, host by host."""

    def __init__(self, request: Request, nodes: Collection[int] = ()) -> None:
        self._request = request
        self._nodes = nodes
        self._by_socket = any(group.numa is NumaPolicy.SOCKET for group in request.groups)
        self._groups: list[dict[Why, _Tally]] = [{} for _ in request.groups]
        self._suitable = [0] * len(request.groups)
        self._together: dict[Why, _Tally] = {}
        self._fitting: list[str] = []
        self._fit_count = 0
        self._hosts = self._cards = 0
        # What was found of cards, and of hosts, that are equal for this request.
        self._known: dict[tuple[object, ...], list[_Tally | None]] = {}
        self._hosts_like: dict[tuple[object, ...], Why | None] = {}

    def add(self, hostname: str, offers: Sequence[Offer]) -> None:
        """A host with all its cards of kinds that some group might take."""
        self._hosts += 1
        self._cards += len(offers)
        broken = broken_units(offers) if any(offer.unit is not None for offer in offers) else frozenset[str | None]()
        here = [0] * len(self._groups)
        sockets = tuple((sockets_of(offers) or {}).items()) if self._by_socket else ()
        for offer in offers:
            alike = (
                sockets,
                offer.kind.digest,
                offer.free,
                offer.used > 0,
                offer.total == 0,
                offer.numa_node,
                offer.out_of_service,
                bool(broken) and offer.unit in broken,
            )
            tallies = self._known.get(alike)
            if tallies is None:
                tallies = self._known[alike] = self._look(offer, broken)
            for position, tally in enumerate(tallies):
                if tally is None:
                    here[position] += 1
                else:
                    tally.add(hostname, offer.address, 1)
        for position, count in enumerate(here):
            self._suitable[position] += count
        if all(here):
            self._add_host(hostname, offers)

    def _look(self, offer: Offer, broken: Collection[str | None]) -> list[_Tally | None]:
        """Under which reason of each group a card like this counts; None where it would do."""
        whys = [of_card(group, offer, broken, self._nodes) for group in self._request.groups]
        return [None if why is None else self._tally(self._groups[position], why) for position, why in enumerate(whys)]

    def _add_host(self, hostname: str, offers: Sequence[Offer]) -> None:
        """A host on which each group finds a card. Equal hosts are looked at once."""
        alike = shape(offers)
        if alike not in self._hosts_like:
            self._hosts_like[alike] = of_host(self._request, offers, self._nodes)
        why = self._hosts_like[alike]
        if why is not None:
            self._tally(self._together, why).add(hostname)
            return
        self._fit_count += 1
        if len(self._fitting) < NAMED:
            self._fitting.append(hostname)

    def add_kind(self, kind: Kind, cards: Mapping[str, int]) -> None:
        """So many cards, by host, of a kind that no group takes."""
        total, example = sum(cards.values()), min(cards)
        self._cards += total
        for position, group in enumerate(self._request.groups):
            wrong = mismatch(group, kind)
            if wrong is not None:
                tally = self._count(position, Why(wrong.code, wrong.what, wrong.mend), total, example)
                tally.crowds.append(cards.keys())

    def add_mode(self, mode: str, cards: int, hosts: int, example: str) -> None:
        """So many cards of a mode that offers nothing, such as this one of that host."""
        self._cards += cards
        why = Why("offers-nothing", f"is {mode} and offers nothing", "cantle device list has the reason of each")
        for position in range(len(self._request.groups)):
            self._count(position, why, cards, example).more_hosts += hosts

    def _count(self, position: int, why: Why, cards: int, example: str) -> _Tally:
        tally = self._tally(self._groups[position], why)
        tally.cards += cards
        if example not in tally.examples:
            tally.examples = [*tally.examples, example][:EXAMPLES]
        return tally

    def _tally(self, among: dict[Why, _Tally], why: Why) -> _Tally:
        if why not in among:
            among[why] = _Tally(why)
        return among[why]

    def result(self, lent_until: str | None = None) -> Explanation:
        """What was found, the commonest reason first. What is asked for several times over is one group with the sum of its units, so that
        nobody reads the same sixty-four times.

        :param lent_until: when the first of the leases that hold such cards ends by itself, for the mend of ``all-lent``.
        """
        told: dict[RequestGroup, GroupView] = {}
        for position, group in enumerate(self._request.groups):
            before = told.get(group)
            found = _sorted(self._groups[position], lent_until) if before is None else before.reasons
            units = group.units + (0 if before is None else before.units)
            told[group] = GroupView(group.name, units, self._suitable[position], found)
        groups = tuple(told.values())
        together = _sorted(self._together, None)
        return Explanation(self._hosts, self._cards, self._fit_count, tuple(self._fitting), groups, together)


def _sorted(tallies: dict[Why, _Tally], lent_until: str | None) -> tuple[Reason, ...]:
    found = sorted((tally.reason() for tally in tallies.values()), key=lambda one: (-one.cards, -one.hosts, one.what))
    if lent_until is None:
        return tuple(found)
    until = f"wait until {lent_until}, when the first lease ends by itself, or release one: cantle lease list"
    return tuple(replace(one, mend=until) if one.code == "all-lent" else one for one in found)
