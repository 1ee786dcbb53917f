"""Quotas: how much of a resource class a project may have at once, and how much it has."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from cantle.model.quota import Quota
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
_OURS = quotas.c.project_id == bindparam("project")
_OF_CLASSES = quotas.c.resource_class.in_(bindparam("classes", expanding=True))
_TURN = update(quotas).where(_OURS, _OF_CLASSES).values(turn=quotas.c.turn + 1)


def take_turn(connection: Connection, project: str, classes: Collection[str]) -> int:
    """Queue up with others who want more for this project; how many of these classes have a limit."""
    return connection.execute(_TURN, {"project": project, "classes": sorted(classes)}).rowcount


def limits(connection: Connection, project: str, classes: Collection[str]) -> Sequence[Record]:
    """resource_class, most, used of the limits of a project on these classes."""
    used = _USED.where(claims.c.project_id == bindparam("project")).subquery()
    query = (
        select(quotas.c.resource_class, quotas.c.most, func.coalesce(used.c.used, 0).label("used"))
        .select_from(quotas.outerjoin(used, used.c.resource_class == quotas.c.resource_class))
        .where(_OURS, _OF_CLASSES)
        .order_by(quotas.c.resource_class)
    )
    return connection.execute(query, {"project": project, "classes": sorted(classes)}).all()


def listed(connection: Connection, project: str | None) -> list[Quota]:
    """Limits and use of one project (None: of all): what has a limit, and what is used without one. Two statements."""
    set_query, used_query = select(quotas), _USED
    if project is not None:
        set_query = set_query.where(quotas.c.project_id == project)
        used_query = used_query.where(claims.c.project_id == project)
    most = {(row.project_id, row.resource_class): row.most for row in connection.execute(set_query)}
    used = {(row.project_id, row.resource_class): row.used for row in connection.execute(used_query)}
    return [
        Quota(project_id=key[0], resource_class=key[1], limit=most.get(key), used=used.get(key, 0))
        for key in sorted({*most, *used})
    ]


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
