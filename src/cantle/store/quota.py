"""Quotas: how much of a resource class a project may have at once, and how much it has."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from cantle.model.quota import DEFAULT, Quota
from cantle.store.quota_table import quotas
from cantle.store.tables import claims, deployables
from cantle.store.types import Record

#: Units that are lent to a project or still being taken back from it, by class: whoever keeps one open goes on having it.
_USED = (
    select(claims.c.project_id, deployables.c.resource_class, func.count().label("used"))
    .join(deployables, deployables.c.id == claims.c.deployable_id)
    .where(claims.c.project_id.is_not(None))
    .group_by(claims.c.project_id, deployables.c.resource_class)
)
_OURS = quotas.c.project_id.in_((bindparam("project"), DEFAULT))
_OF_CLASSES = quotas.c.resource_class.in_(bindparam("classes", expanding=True))
_TURN = update(quotas).where(_OURS, _OF_CLASSES).values(turn=quotas.c.turn + 1)


def take_turn(connection: Connection, project: str, classes: Collection[str]) -> int:
    """Queue up with others who want more for this project, or of what has a default; 0 when none of these classes has a limit."""
    return connection.execute(_TURN, {"project": project, "classes": sorted(classes)}).rowcount


def limits(connection: Connection, project: str, classes: Collection[str]) -> Sequence[Record]:
    """project_id (`DEFAULT` where it has none of its own), resource_class, most, used of the limits of a project on these classes."""
    used = _USED.where(claims.c.project_id == bindparam("project")).subquery()
    query = (
        select(quotas.c.project_id, quotas.c.resource_class, quotas.c.most, func.coalesce(used.c.used, 0).label("used"))
        .select_from(quotas.outerjoin(used, used.c.resource_class == quotas.c.resource_class))
        .where(_OURS, _OF_CLASSES)
        .order_by(quotas.c.resource_class)
    )
    rows = connection.execute(query, {"project": project, "classes": sorted(classes)}).all()
    own = {row.resource_class for row in rows if row.project_id != DEFAULT}
    return [row for row in rows if row.project_id != DEFAULT or row.resource_class not in own]


def listed(connection: Connection, project: str | None) -> list[Quota]:
    """Limits and use of one project (None: of all, and the defaults): what has a limit, and what is used without one. By project, then
    class. Two statements."""
    set_query, used_query = select(quotas), _USED
    if project is not None:
        set_query = set_query.where(quotas.c.project_id.in_((project, DEFAULT)))
        used_query = used_query.where(claims.c.project_id == project)
    most = {(row.project_id, row.resource_class): row.most for row in connection.execute(set_query)}
    used = {(row.project_id, row.resource_class): row.used for row in connection.execute(used_query)}
    keys = {*most, *used}
    if project is not None:
        keys = {(project, resource_class) for _, resource_class in keys}
    return [_quota(key, most, used.get(key, 0)) for key in sorted(keys)]


def _quota(key: tuple[str, str], most: Mapping[tuple[str, str], int], used: int) -> Quota:
    project, resource_class = key
    if key in most:
        return Quota(project, resource_class, most[key], used)
    default = most.get((DEFAULT, resource_class))
    return Quota(project, resource_class, default, used, inherited=default is not None)


def put(connection: Connection, project: str, resource_class: str, most: int | None, now: dt.datetime) -> None:
    """Set a limit; None takes it away. Two statements; whoever is slower in making the first is told so by the database."""
    is_it = (quotas.c.project_id == project, quotas.c.resource_class == resource_class)
    if most is None:
        connection.execute(delete(quotas).where(*is_it))
    elif not connection.execute(
        update(quotas).where(*is_it).values(most=most, updated_at=now, turn=quotas.c.turn + 1)
    ).rowcount:
        values = {"project_id": project, "resource_class": resource_class, "most": most, "created_at": now}
        connection.execute(insert(quotas), values)
