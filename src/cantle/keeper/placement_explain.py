"""Why does Placement offer no host for a request? Under Nova it is Placement that decides, by what it has and not by what is so.

For each provider of ours the first reason. The traits and amounts are asked of Placement by its own filters, so that a whole cloud costs
a request for each trait and group, not one for each provider; only some of those that have too little left are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cantle.engine import choice
from cantle.errors import BadRequest, NotFound
from cantle.keeper.placement_sums import Stock, left_of, of_sums
from cantle.keeper.placement_why import DIFF, Ours, of_amounts, of_provider
from cantle.model.alias import NO_ALIASES, Aliases
from cantle.model.explanation import Explanation, GroupView, Reason
from cantle.model.request import Request, RequestGroup
from cantle.scheduling.explain import EXAMPLES, NAMED, Why
from cantle.store import provider as store
from cantle.store.database import Database

if TYPE_CHECKING:
    from cantle.placement.client import PlacementClient  # needs an extra

#: Candidates that are asked for. When there are as many, hosts beyond them are not said to be impossible.
CANDIDATES = 1000
#: Providers of one group that are looked at one by one, with two requests each.
EXAMINED = 50
#: The trait of a compute node to which nova-scheduler sends nothing.
DISABLED = "COMPUTE_STATUS_DISABLED"


@dataclass(slots=True)
class Look:
    """What Placement says of the whole cloud: which providers are there, have a trait, can give what a group wants.

    ``unknown`` are traits that it has never heard of: it refuses to look for candidates with or without them.
    """

    there: set[str]
    unknown: set[str]
    traits: dict[str, set[str]]
    able: dict[tuple[tuple[str, int], ...], set[str]]


@dataclass(slots=True)
class _Tally:
    cards: int = 0
    hosts: set[str] = field(default_factory=set)
    examples: list[str] = field(default_factory=list)


def explain(
    db: Database,
    client: PlacementClient,
    *,
    name: str | None = None,
    extra_specs: Mapping[str, str] | None = None,
    count: int = 1,
    hostname: str | None = None,
    aliases: Aliases = NO_ALIASES,
) -> Explanation:
    """Which hosts Placement offers for ``count`` times a profile or flavor, or extra specs, and why it does not offer the rest. Its
    providers are counted as cards. Nothing is written anywhere.

    :param hostname: look at this host alone.
    :raises NotFound: ``profile-not-found``; ``nothing-published``.
    :raises BadRequest: ``not-for-placement``; what `cantle.engine.choice.by_name` raises.
    :raises Unavailable: ``placement-away``.
    """
    with db.read() as connection:
        if name is not None:
            asked = choice.by_name(connection, name, count, aliases).request
        else:
            asked = choice.by_extra_specs(connection, extra_specs or {}, count, aliases).request
        ours = [Ours(*one) for one in store.everywhere(connection, hostname)]
    _check(asked, ours)
    seen = look(client, asked)
    found = [_group(client, group, times, ours, seen) for group, times in _different(asked)]
    fitting, complete = _offered(client, asked, ours, ours[0].root if hostname is not None else None)
    fitting -= _disabled(ours, seen)
    possible = set.intersection(*(hosts for _, hosts in found))
    together = _together(client, asked, ours, seen, possible - fitting) if complete else ()
    groups = tuple(view for view, _ in found)
    hosts = len({one.hostname for one in ours})
    return Explanation(hosts, len(ours), len(fitting), tuple(sorted(fitting)[:NAMED]), groups, together)


def _check(asked: Request, ours: Sequence[Ours]) -> None:
    for group in asked.groups:
        if not group.amounts:
            raise BadRequest(
                "not-for-placement",
                f"{group.name} says which cards it wants by their ids or labels, which Placement does not know; ask without --placement.",
            )
    if not ours:
        raise NotFound(
            "nothing-published",
            "Nothing of ours is published in Placement; 'cantle placement diff' shows what shall be.",
        )


def look(client: PlacementClient, asked: Request) -> Look:
    """Ask Placement what decides about the groups: a request for each trait, and one for each different amount."""
    names = {DISABLED}
    for group in asked.groups:
        names |= group.required | group.forbidden | frozenset[str]().union(*group.any_of)
    known = client.known_traits(names)
    traits = {name: client.having(trait=name) if name in known else set() for name in sorted(names)}
    by_amounts = {group.amounts: client.having(amounts=group.amounts) for group in asked.groups}
    return Look(client.having(), names - known, traits, by_amounts)


def _different(asked: Request) -> list[tuple[RequestGroup, int]]:
    """The groups, those that ask for the same once, and how often they stand there."""
    found: dict[RequestGroup, list[RequestGroup]] = {}
    for group in asked.groups:
        found.setdefault(replace(group, name=""), []).append(group)
    return [(some[0], len(some)) for some in found.values()]


def _group(
    client: PlacementClient, group: RequestGroup, times: int, ours: Sequence[Ours], seen: Look
) -> tuple[GroupView, set[str]]:
    """What there is to say about one group, and the hosts on which it finds a provider."""
    tallies: dict[Why, _Tally] = {}
    hosts: set[str] = set()
    examined = suitable = 0
    for one in ours:
        why = of_provider(group, one, seen.there, seen.traits)
        if why is None and one.record.uuid in seen.able[group.amounts]:
            suitable += 1
            hosts.add(one.hostname)
            continue
        if why is None:
            examined += 1
            why = _amounts(client, group, one) if examined <= EXAMINED else _UNSEEN
        _count(tallies, why, one.hostname, one.record.name, cards=1)
    return GroupView(group.name, group.units * times, suitable, _sorted(tallies)), hosts


#: Of those that are too many to be looked at.
_UNSEEN = Why("too-few-left", "cannot give as many in Placement", "ask about one host to see what it has: --host")


def _amounts(client: PlacementClient, group: RequestGroup, one: Ours) -> Why:
    uuid = one.record.uuid
    try:
        return of_amounts(group, client.inventories(uuid), client.usages(uuid)[1], one.record)
    except NotFound:
        return Why("not-in-placement", "is not in Placement", DIFF)


def _offered(client: PlacementClient, asked: Request, ours: Sequence[Ours], root: str | None) -> tuple[set[str], bool]:
    """Hosts that Placement offers, and whether these are all."""
    names = {one.record.uuid: one.hostname for one in ours}
    found = client.candidates(asked, CANDIDATES, root)
    hosts = {names[uuid] for providers in found for uuid in providers if uuid in names}
    return hosts, len(found) < CANDIDATES


def _disabled(ours: Sequence[Ours], seen: Look) -> set[str]:
    return {one.hostname for one in ours if one.root in seen.traits[DISABLED]}


def _together(
    client: PlacementClient, asked: Request, ours: Sequence[Ours], seen: Look, hosts: Iterable[str]
) -> tuple[Reason, ...]:
    """Why hosts are not offered though each group finds a provider there."""
    left = sorted(hosts)
    if not left:
        return ()
    closed = _disabled(ours, seen)
    mixed: set[str] = set()
    if asked.isolate and set(left) - closed:
        mixed, _ = _offered(client, replace(asked, isolate=False), ours, None)
    tallies: dict[Why, _Tally] = {}
    examined = 0
    unknown = ", ".join(sorted(seen.unknown - {DISABLED}))
    for name in left:
        if unknown:
            why = Why("unknown-trait", f"is not looked at, since Placement knows no {unknown}", _unknown(unknown))
        elif name in closed:
            why = Why(
                "compute-disabled",
                "is disabled for Nova's scheduler",
                "openstack compute service set --enable HOST nova-compute",
            )
        elif name in mixed:
            why = Why(
                "not-isolated", "has too few different providers for groups that are isolated", "group_policy=none"
            )
        else:
            there = [one for one in ours if one.hostname == name and _would_do(asked, one, seen)]
            examined += len(there)
            found = of_sums(asked, _stocks(client, there)) if examined <= EXAMINED else None
            why = found or _NOT_TOGETHER
        _count(tallies, why, name, "", cards=0)
    return _sorted(tallies)


def _unknown(names: str) -> str:
    """What to do about traits that Placement has never heard of: only custom ones can be made."""
    if all(name.startswith("CUSTOM_") for name in names.split(", ")):
        return f"openstack trait create {names.replace(', ', ' ')}, or ask without it"
    return "name it as openstack trait list does, or ask without it"


_NOT_TOGETHER = Why("not-together", "has a provider for each group, but not for all of them together", "ask for fewer")


def _would_do(asked: Request, one: Ours, seen: Look) -> bool:
    return any(
        one.record.uuid in seen.able[group.amounts] and of_provider(group, one, seen.there, seen.traits) is None
        for group in asked.groups
    )


def _stocks(client: PlacementClient, providers: Sequence[Ours]) -> list[Stock]:
    """What providers have left of their classes, two requests each. One that is gone meanwhile has nothing."""
    found: list[Stock] = []
    for one in providers:
        try:
            inventories, used = client.inventories(one.record.uuid), client.usages(one.record.uuid)[1]
        except NotFound:
            continue
        found += [Stock(name, left_of(stock, used.get(name, 0)), stock.max_unit) for name, stock in inventories.items()]
    return found


def _count(tallies: dict[Why, _Tally], why: Why, hostname: str, provider: str, *, cards: int) -> None:
    tally = tallies.setdefault(why, _Tally())
    tally.cards += cards
    tally.hosts.add(hostname)
    if len(tally.examples) < EXAMPLES:
        tally.examples.append(provider or hostname)


def _sorted(tallies: Mapping[Why, _Tally]) -> tuple[Reason, ...]:
    found = [
        Reason(why.code, why.what, why.mend, tally.cards, len(tally.hosts), tuple(tally.examples))
        for why, tally in tallies.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.cards, -one.hosts, one.what)))
