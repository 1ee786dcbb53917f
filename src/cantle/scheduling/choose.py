"""Choose among hosts: preferred kinds first, then the fullest host (or the emptiest), then by name. Same question, same answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cantle.model.kind import mismatch, tier
from cantle.model.offer import Offer
from cantle.model.request import Packing, Request
from cantle.scheduling.fit import Taken, fit, packing, usable


@dataclass(frozen=True, slots=True)
class Choice:
    """A host, and what is taken of it: in the order of the request's groups, then companions."""

    host_id: int
    hostname: str
    taken: tuple[Taken, ...]

    @property
    def failing(self) -> bool:
        """Whether a card of it failed a moment ago."""
        return any(one.offer.failing for one in self.taken)


def choose(request: Request, offers: Iterable[Offer], *, nodes: Collection[int] = ()) -> Choice | None:
    """The best of `choices`; None when there is none."""
    return next(choices(request, offers, nodes=nodes), None)


def choices(request: Request, offers: Iterable[Offer], *, nodes: Collection[int] = ()) -> Iterator[Choice]:
    """The hosts that can serve a request, best first, and what is taken of each.

    :param nodes: the guest's memory nodes, see `cantle.scheduling.fit.fit`.
    """
    hosts: dict[str, list[Offer]] = defaultdict(list)
    for offer in offers:
        hosts[offer.hostname].append(offer)
    for hostname in ranked(request, hosts):
        taken = fit(request, hosts[hostname], nodes=nodes)
        if taken is not None:
            yield Choice(hosts[hostname][0].host_id, hostname, tuple(taken))


def ranked(request: Request, hosts: Mapping[str, Sequence[Offer]]) -> list[str]:
    """Names of hosts, best first. A host is as full as its cards that would do: what else it has does not count."""
    right = {
        name: [one for one in usable(offers) if any(mismatch(group, one.kind) is None for group in request.groups)]
        for name, offers in hosts.items()
    }
    sign = 1 if packing(request, (one.kind for offers in right.values() for one in offers)) is Packing.PACK else -1

    def key(name: str) -> tuple[int, int, str]:
        liked = min((tier(group, one.kind) for group in request.groups for one in right[name]), default=0)
        return liked, sign * sum(one.free for one in right[name]), name

    return sorted((name for name, offers in right.items() if offers), key=key)
