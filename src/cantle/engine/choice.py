"""Find a host for a request: match kinds, find hosts by what they have free of them, look closely at a few (design, *Scheduling*)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from sqlalchemy import Connection

from cantle.engine import absent
from cantle.errors import BadRequest
from cantle.model import extra_specs, request
from cantle.model.alias import Aliases
from cantle.model.attachment import GuestKind
from cantle.model.kind import UNIT_LABEL, Kind, load, mismatch, tier
from cantle.model.profile import MAX_UNITS
from cantle.model.request import Packing, Request
from cantle.scheduling.choose import Choice, choices
from cantle.scheduling.fit import packing
from cantle.store import host, offer, profile, stock
from cantle.store import kind as kind_store
from cantle.store.database import Database
from cantle.store.types import Record

#: Hosts that are looked at closely first; if none of them does, `stock.GROWTH` times more.
PAGE = 4
#: Hosts that are passed over because somebody else is choosing there.
TRIES = 4
#: Kinds of one need that are looked up one by one.
MOST_KINDS = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for, and every kind that there is.

    :param profile_id: the profile's or flavor's row; None for extra specs that nobody keeps.
    """

    name: str
    request: Request
    kinds: tuple[Kind, ...]
    profile_id: int | None = None


def by_name(connection: Connection, name: str, count: int, aliases: Aliases) -> Asked:
    """What ``count`` times a profile or flavor asks for. One statement; one more for a flavor that names a profile.

    :raises NotFound: ``profile-not-found``.
    :raises BadRequest: ``bad-lease`` for too many units; what `cantle.model.extra_specs.read` raises.
    """
    rows = offer.asked(connection, name)
    if not rows:
        raise absent.profile_or_flavor(name)
    kinds = tuple(load(row.digest, row.facts) for row in rows if row.digest is not None)
    return Asked(name, _times(once(connection, rows[0], aliases), name, count), kinds, rows[0].id)


def into(asked: Asked, guest: GuestKind | None) -> Asked:
    """The same for a guest of this kind; None for one that is not known, which may be a virtual machine."""
    if guest is None or not guest.is_container:
        return asked
    return replace(asked, request=asked.request.into_container())


def by_extra_specs(connection: Connection, specs: Mapping[str, str], count: int, aliases: Aliases) -> Asked:
    """What ``count`` times these extra specs ask for.

    :raises NotFound: ``profile-not-found``, of the profile they name.
    :raises BadRequest: as `by_name`.
    """
    once = of_extra_specs(connection, specs, aliases)
    return Asked("these extra specs", _times(once, "this", count), tuple(kind_store.all_kinds(connection)))


def find(
    connection: Connection, asked: Asked, *, hostname: str | None = None, nodes: Collection[int] = ()
) -> Choice | None:
    """The best host for what is asked, and what to take of it; None when none was found among those that should do. Two statements; more
    only where hosts have enough, but not together."""
    return next(_found(connection, asked, hostname, nodes), None)


def hold(
    connection: Connection, asked: Asked, *, hostname: str | None = None, nodes: Collection[int] = ()
) -> Choice | None:
    """The same, and the host is locked. A host that somebody else has locked is passed over while there are others as near at hand:
    whoever chooses at the same time would choose the same. It is waited for rather than a card that failed is taken."""
    busy: list[Choice] = []
    for found in islice(_found(connection, asked, hostname, nodes), TRIES):
        if busy and found.failing and not busy[0].failing:
            break
        if host.lock_if_free(connection, found.host_id):
            return found
        busy.append(found)
    if busy:
        host.lock(connection, [busy[0].host_id])
        return busy[0]
    return None


def _found(connection: Connection, asked: Asked, hostname: str | None, nodes: Collection[int]) -> Iterator[Choice]:
    """Hosts, best first. One that can serve it with a card alone that failed a moment ago waits for a better one, as long as few do."""
    failing: dict[int, Choice] = {}
    for found in _fitting(connection, asked, hostname, nodes):
        if not found.failing:
            yield found
        elif found.host_id in failing:
            continue  # found again with kinds that are liked less
        elif len(failing) < TRIES:
            failing[found.host_id] = found
        else:
            yield found
    yield from failing.values()


def _fitting(connection: Connection, asked: Asked, hostname: str | None, nodes: Collection[int]) -> Iterator[Choice]:
    for kinds in tiers(asked.request, asked.kinds):
        right = [[one for one in kinds if mismatch(group, one) is None] for group in asked.request.groups]
        if not all(right):
            continue
        known = with_companions((one for some in right for one in some), asked.kinds)
        for host_ids in _pages(connection, asked.request, right, hostname):
            yield from choices(asked.request, offer.on_hosts(connection, host_ids, known), nodes=nodes)


def tiers(asked: Request, kinds: Sequence[Kind]) -> Iterator[list[Kind]]:
    """Kinds that some group takes: first those that are liked best, then with them those liked less, and so on."""
    liked = {
        kind: min((tier(group, kind) for group in asked.groups if mismatch(group, kind) is None), default=-1)
        for kind in kinds
    }
    for limit in sorted({level for level in liked.values() if level >= 0}):
        yield [kind for kind in kinds if 0 <= liked[kind] <= limit]


def with_companions(right: Iterable[Kind], kinds: Sequence[Kind]) -> list[Kind]:
    """These kinds, and those of cards that go with theirs as one unit."""
    known = {kind.digest: kind for kind in right}
    units = {kind.labels.get(UNIT_LABEL) for kind in known.values()} - {None}
    known.update((kind.digest, kind) for kind in kinds if kind.labels.get(UNIT_LABEL) in units)
    return list(known.values())


def repair(db: Database) -> None:
    """Count what hosts have free anew, wherever the hint is wrong."""
    db.run(stock.refresh_wrong)


def _pages(
    connection: Connection, asked: Request, right: Sequence[Sequence[Kind]], hostname: str | None
) -> Iterator[list[int]]:
    """Numbers of hosts that should do, best first: few, then more and more at a time."""
    units: dict[frozenset[str], int] = {}
    for group, kinds in zip(asked.groups, right, strict=True):
        digests = frozenset(kind.digest for kind in kinds)
        units[digests] = units.get(digests, 0) + group.units
    needs = [stock.Need(digests, number) for digests, number in units.items()]
    needs.sort(key=lambda need: (len(need.kinds), -need.units, sorted(need.kinds)))
    emptiest = packing(asked, (kind for kinds in right for kind in kinds)) is Packing.SPREAD
    for mixed in _ways(needs[0]):
        limit, last = PAGE, None
        while True:
            found = stock.candidates(
                connection, needs, emptiest=emptiest, limit=limit, after=last, hostname=hostname, mixed=mixed
            )
            if found:
                yield list(dict.fromkeys(one.host_id for one in found))
            if len(found) < limit:
                break
            limit, last = limit * stock.GROWTH, found[-1]


def _ways(need: stock.Need) -> tuple[bool, ...]:
    """Whether hosts are found by what they have of one kind, or of all kinds together, or first so and then so."""
    if len(need.kinds) > MOST_KINDS:
        return (True,)
    return (False, True) if len(need.kinds) > 1 and need.units > 1 else (False,)


def once(connection: Connection, row: Record, aliases: Aliases) -> Request:
    """The request of a profile or flavor, asked for once. The row has its groups and extra_specs.

    :raises NotFound: as `of_extra_specs`.
    :raises BadRequest: as `of_extra_specs`.
    """
    if row.extra_specs is None:
        return request.of_profile(row.groups)
    return of_extra_specs(connection, row.extra_specs, aliases)


def of_extra_specs(connection: Connection, specs: Mapping[str, str], aliases: Aliases) -> Request:
    """The request that extra specs make, with the groups of the profile they name.

    :raises NotFound: ``profile-not-found``.
    :raises BadRequest: as `cantle.model.extra_specs.read`.
    """
    name = extra_specs.profile_named(specs)
    if name is None:
        return extra_specs.read(specs, aliases)
    found = profile.by_name(connection, name)
    if found is None:
        raise absent.profile_named_by(extra_specs.PROFILE, name)
    return extra_specs.read(specs, aliases, found.groups)


def _times(once: Request, name: str, count: int) -> Request:
    if once.units * count > MAX_UNITS:
        raise BadRequest(
            "bad-lease", f"{count} times {name} is {once.units * count} accelerators; at most {MAX_UNITS} are possible."
        )
    return once.times(count)
