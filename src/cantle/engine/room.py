"""How many more of each profile and flavor could be lent now, in all and on each host."""

from __future__ import annotations

from cantle.engine import absent, choice
from cantle.engine.choice import Asked
from cantle.errors import CantleError
from cantle.model.alias import Aliases
from cantle.model.kind import mismatch
from cantle.model.offer import Offer
from cantle.model.room import Room
from cantle.scheduling.count import how_many, shape
from cantle.store import host, kind, offer
from cantle.store import room as store
from cantle.store.database import Database


def list_room(db: Database, *, aliases: Aliases, name: str | None = None, hostname: str | None = None) -> list[Room]:
    """By name, how many more of each profile and flavor fit. Each is counted as if it were asked for alone.

    :param name: this profile or flavor only; ``hostname``: this host only.
    :raises NotFound: ``profile-not-found``, ``host-not-found``.
    """
    with db.read() as connection:
        kinds = tuple(kind.all_kinds(connection))
        rows = store.asked_for(connection, name)
        if name is not None and not rows:
            raise absent.profile_or_flavor(name)
        if hostname is not None and host.find(connection, hostname) is None:
            raise absent.host(hostname)
        counts: dict[str, dict[str, int]] = {}
        asked: list[Asked] = []
        problems: dict[str, str] = {}
        for row in rows:
            counts[row.name] = {}
            try:
                asked.append(Asked(row.name, choice.once(connection, row, aliases), kinds, row.id))
            except CantleError as error:  # an alias that is gone, a profile that was deleted
                problems[row.name] = error.message
        known: dict[tuple[str, tuple[object, ...]], int] = {}
        for of_host, offers in offer.by_host(connection, kinds, hostname=hostname):
            alike = shape(offers)
            for one in asked:
                if (one.name, alike) not in known:
                    known[one.name, alike] = how_many(one.request, offers) if _could(one, offers) else 0
                if known[one.name, alike]:
                    counts[one.name][of_host] = known[one.name, alike]
    return [Room(row.name, row.extra_specs is not None, counts[row.name], problems.get(row.name)) for row in rows]


def _could(asked: Asked, offers: list[Offer]) -> bool:
    """Whether each group finds a right kind on a host, before anything is counted."""
    there = {one.kind for one in offers}
    return all(any(mismatch(group, one) is None for one in there) for group in asked.request.groups)
