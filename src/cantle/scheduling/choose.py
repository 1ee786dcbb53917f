"""Choose a host and its providers for a profile: least used first, the same answer to the same question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cantle.errors import NoCapacity
from cantle.model.profile import Unit, units
from cantle.scheduling.explain import why_not
from cantle.scheduling.fit import fit
from cantle.scheduling.offer import Ask, Offer, asks, mismatch

#: Hosts named in a message; the details name more.
NAMED_IN_MESSAGE = 5
NAMED_IN_DETAILS = 100


@dataclass(frozen=True, slots=True)
class Choice:
    """A host, and for each unit asked for the offer it is taken from, in the order of the profile's groups."""

    host_id: int
    hostname: str
    units: tuple[tuple[Unit, Offer], ...]


def choose(profile_name: str, groups: Sequence[Mapping[str, str]], count: int, offers: Sequence[Offer]) -> Choice:
    """The host for ``count`` times the profile. All groups fit on it together, each group on one provider.

    :raises NoCapacity: ``no-capacity``; ``details["hosts"]`` says why not by host name.
    """
    wanted = asks(groups, count)
    hosts: dict[str, list[Offer]] = defaultdict(list)
    for offer in offers:
        hosts[offer.hostname].append(offer)
    distinct = set(wanted)
    for hostname in sorted(hosts, key=lambda name: (_use(hosts[name]), name)):
        if not all(any(_serves(ask, offer) for offer in hosts[hostname]) for ask in distinct):
            continue
        chosen = fit(wanted, hosts[hostname])
        if chosen is not None:
            by_group = zip(wanted, chosen, strict=True)
            paired = [
                (unit, offer) for ask, offer in by_group for unit in units(groups) if unit.group_id == ask.group_id
            ]
            return Choice(hosts[hostname][0].host_id, hostname, tuple(paired))
    named = sorted(hosts)[:NAMED_IN_DETAILS]
    raise _no_capacity(profile_name, {name: why_not(wanted, hosts[name]) for name in named}, len(hosts))


def _use(offers: Sequence[Offer]) -> float:
    """The part of a host's units that is lent; a host with nothing in service comes last."""
    used, free = (
        sum(offer.used for offer in offers),
        sum(offer.free for offer in offers if offer.out_of_service is None),
    )
    return used / (used + free) if free else 1.0


def _serves(ask: Ask, offer: Offer) -> bool:
    """Whether an offer would do for an ask if there were no others: most hosts of a full cloud are passed over by this."""
    return offer.free >= ask.amount and offer.out_of_service is None and mismatch(ask, offer) is None


def _no_capacity(profile_name: str, reasons: Mapping[str, str], hosts: int) -> NoCapacity:
    if not reasons:
        return NoCapacity("no-capacity", f"No host offers what profile {profile_name} asks for.", hosts={})
    shown = [f"{name}: {reason}" for name, reason in list(reasons.items())[:NAMED_IN_MESSAGE]]
    more = hosts - len(shown)
    return NoCapacity(
        "no-capacity",
        f"No host can serve profile {profile_name} now. "
        + "; ".join(shown)
        + (f"; and {more} more" if more > 0 else "")
        + ".",
        hosts=dict(reasons),
    )
