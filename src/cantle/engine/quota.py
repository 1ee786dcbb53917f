"""Quotas: what a project may have at once, checked in the transaction that claims, before anything is claimed."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection

from cantle.engine import absent, audit
from cantle.engine.access import project_filter, sees
from cantle.engine.clock import now
from cantle.errors import BadRequest, Conflict
from cantle.model.audit import Thing
from cantle.model.identity import Identity
from cantle.model.page import Page
from cantle.model.profile import STANDARD_CLASSES, is_resource_class
from cantle.model.quota import DEFAULT, MAX_LIMIT, Quota
from cantle.scheduling.fit import Taken
from cantle.store import quota as store
from cantle.store.database import Database

#: What was taken for a class before, and may be in the database: its limit can be taken away.
_ONCE_A_CLASS = re.compile(r"[A-Z0-9_]{1,255}")
_SORT_KEY = "project_id"


def check(
    connection: Connection, project: str | None, taken: Sequence[Taken], *, back: Mapping[str, int] | None = None
) -> None:
    """Refuse to give a project more than it may have. Requests of one project for what is limited are checked one after the other.

    :param taken: all that is about to be claimed.
    :param back: units that are given back for it, by class.
    :raises Conflict: ``quota-exceeded``; nothing was claimed.
    """
    wanted = Counter[str]()
    for one in taken:
        wanted[one.offer.kind.resource_class] += one.amount
    if project is None or store.take_turn(connection, project, wanted) == 0:
        return
    back = back or {}
    too_much = [
        f"{row.resource_class}: {'default limit' if row.project_id == DEFAULT else 'limit'} {row.most}, "
        f"in use {row.used}, asked for {wanted[row.resource_class]}"
        for row in store.limits(connection, project, wanted)
        if row.used - back.get(row.resource_class, 0) + wanted[row.resource_class] > row.most
    ]
    if too_much:
        raise Conflict(
            "quota-exceeded",
            f"Project {project} may not have so many ({'; '.join(too_much)}). Release something, or ask for a higher limit: "
            f"cantle quota set {project} CLASS=N",
            project_id=project,
        )


def list_quotas(db: Database, who: Identity, project: str | None = None, *, page: Page | None = None) -> list[Quota]:
    """What projects may have and what they have: the caller's own, for an administrator anybody's and the defaults.

    :param project: of this one only.
    :param page: its marker is the project and the class that were seen last, ``PROJECT/CLASS``; an entry that has gone since will do.
    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    :raises NotFound: ``project-not-found``: another's, and the caller is no administrator.
    """
    if project is not None and not sees(who, project):
        raise absent.project(project)
    page = page or Page(sort_key=_SORT_KEY)
    if page.sort_key != _SORT_KEY:
        raise BadRequest("bad-sort-key", f"sort_key is {page.sort_key!r}; this list sorts by {_SORT_KEY}.")
    only = project if project is not None else project_filter(who)
    with db.read() as connection:
        return store.listed(connection, only, beyond=_seen(page), descending=page.sort_dir == "desc", most=page.limit)


def marker(one: Quota) -> str:
    """What names an entry of the list as the last one seen."""
    return f"{one.project_id}/{one.resource_class}"


def _seen(page: Page) -> tuple[str, str] | None:
    """Project and class of the marker."""
    if page.marker is None:
        return None
    project, slash, resource_class = page.marker.rpartition("/")
    if not slash:
        raise BadRequest("marker-not-found", f"marker is {page.marker!r}; give the last entry seen, as PROJECT/CLASS.")
    return project, resource_class


def set_quota(db: Database, who: Identity, project: str, resource_class: str, limit: int | None) -> Quota:
    """Limit what a project, or each that has no limit of its own (`DEFAULT`), may have at once; None takes the limit away.
    One below what is in use takes nothing from anybody.

    :raises BadRequest: ``bad-quota``.
    """
    is_one_of_before = limit is None and _ONCE_A_CLASS.fullmatch(resource_class) is not None
    if not is_resource_class(resource_class) and not is_one_of_before:
        raise BadRequest("bad-quota", _no_class(resource_class))
    if not 1 <= len(project) <= 255:
        raise BadRequest("bad-quota", f"The project has {len(project)} characters; give 1 to 255.")
    if limit is not None and not 0 <= limit <= MAX_LIMIT:
        raise BadRequest("bad-quota", f"The limit is {limit}; give a number from 0 to {MAX_LIMIT}, or none.")

    def work(connection: Connection) -> list[Quota]:
        store.put(connection, project, resource_class, limit, now())
        facts = {"limit": "none" if limit is None else str(limit)}
        audit.record(connection, who, "quota.set", Thing(project, resource_class=resource_class, facts=facts))
        return store.listed(connection, project)

    found = db.run(work)
    audit.note(who, "quota.set", project, resource_class, str(limit))
    for one in found:
        if one.resource_class == resource_class:
            return one
    return Quota(project, resource_class, None, 0)


def doubt(db: Database, resource_class: str, limit: int | None) -> str | None:
    """What speaks against a limit on a class, which may be there before the first card: that no card offers it now; None: nothing does.
    One statement."""
    if limit is None:
        return None
    with db.read() as connection:
        offered = store.offered_classes(connection)
    if resource_class in offered:
        return None
    return (
        f"No card offers {resource_class} now{_question(resource_class, offered)} The limit counts as soon as one does; "
        "'cantle capacity' lists the classes that are offered."
    )


def _no_class(said: str) -> str:
    question = _question(said.upper(), STANDARD_CLASSES)
    known = ", ".join(sorted(STANDARD_CLASSES))
    return f"{said[:255]!r} is no resource class of accelerators: these are {known}, and what begins with CUSTOM_{question}"


def _question(said: str, known: Iterable[str]) -> str:
    """The end of a sentence: what may have been meant."""
    meant = difflib.get_close_matches(said, sorted(known), n=1)
    return f"; did you mean {meant[0]}?" if meant else "."
