"""How long projects had units of a class: from being claimed to being back."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from dataclasses import dataclass

from cantle.engine import absent
from cantle.engine.access import project_filter, sees
from cantle.errors import BadRequest
from cantle.model.identity import Identity
from cantle.store import usage as store
from cantle.store.database import Database


@dataclass(frozen=True, slots=True)
class Usage:
    """One class of one project. ``hours`` are unit-hours: two units for an hour are two; ``loans`` is of how many loans, ended or not."""

    project_id: str
    resource_class: str
    hours: float
    loans: int


def measure(
    db: Database, who: Identity, begin: dt.datetime, end: dt.datetime, project: str | None = None
) -> list[Usage]:
    """Unit-hours between two moments (aware), by project and class. A unit counts until its host says that it is back: whoever keeps one
    open goes on having it. Two statements. As far back as the audit log is kept.

    :param project: of this one only; without it the caller's own, for an administrator all.
    :raises BadRequest: ``bad-argument``: ``end`` is not after ``begin``.
    :raises NotFound: ``project-not-found``: another's, and the caller is no administrator.
    """
    if end <= begin:
        raise BadRequest("bad-argument", f"until ({end.isoformat()}) is not after since ({begin.isoformat()}).")
    if project is not None and not sees(who, project):
        raise absent.project(project)
    only = project if project is not None else project_filter(who)
    spent: dict[tuple[str, str], list[float]] = defaultdict(list)
    with db.read() as connection:
        for row in store.loans(connection, begin, end, only):
            spent[row.owner_id, row.resource_class].append(_seconds(row.since, row.until, begin, end))
        for row in store.standing(connection, end, only):
            spent[row.owner_id, row.resource_class].append(_seconds(row.since, row.until, begin, end))
    return [
        Usage(owner, resource_class, round(sum(parts) / 3600.0, 6), len(parts))
        for (owner, resource_class), parts in sorted(spent.items())
    ]


def _seconds(since: dt.datetime, until: dt.datetime, begin: dt.datetime, end: dt.datetime) -> float:
    return max(0.0, (min(until, end) - max(since, begin)).total_seconds())
