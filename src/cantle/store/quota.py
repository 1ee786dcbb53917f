"""Quotas: how much of a resource class a project may have at once, and how much it has."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Label,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    union,
    update,
)

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
_OFFERED = select(deployables.c.resource_class).where(deployables.c.total > 0).distinct()
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


def offered_classes(connection: Connection) -> frozenset[str]:
    """The classes that cards have units of, also those of hosts and cards that are away."""
    return frozenset(connection.execute(_OFFERED).scalars())


def listed(
    connection: Connection,
    project: str | None,
    *,
    beyond: tuple[str, str] | None = None,
    descending: bool = False,
    most: int | None = None,
) -> list[Quota]:
    """Limits and use of one project (None: of all, and the defaults): what has a limit, and what is used without one. By project, then
    class. One statement, which counts the units of those on the page only.

    :param beyond: only what comes after this project and class, which need not be there.
    :param most: so many at most.
    """
    limited, used = _keys(project, beyond, descending=descending)
    keys = union(limited, used).subquery("keys")
    own, default = quotas.alias("own"), quotas.alias("default_of_all")
    query = (
        select(keys.c.project_id, keys.c.resource_class, own.c.most, default.c.most.label("else_most"), _used_by(keys))
        .select_from(
            keys.outerjoin(own, _is(own, keys.c.project_id, keys.c.resource_class)).outerjoin(
                default, _is(default, literal(DEFAULT), keys.c.resource_class)
            )
        )
        .order_by(*((one.desc() if descending else one.asc()) for one in (keys.c.project_id, keys.c.resource_class)))
    )
    return [_quota(row) for row in connection.execute(query if most is None else query.limit(most))]


def _keys(project: str | None, beyond: tuple[str, str] | None, *, descending: bool) -> tuple[Select[Any], Select[Any]]:
    """Project and class of what has a limit, and of what is used."""
    limited = select(quotas.c.project_id, quotas.c.resource_class)
    used = select(claims.c.project_id, deployables.c.resource_class).join(
        deployables, deployables.c.id == claims.c.deployable_id
    )
    if project is None:
        used = used.where(claims.c.project_id.is_not(None))
    else:  # what is limited for all is so for this one
        its = literal(project, type_=quotas.c.project_id.type).label("project_id")
        limited = select(its, quotas.c.resource_class).where(quotas.c.project_id.in_((project, DEFAULT)))
        used = used.where(claims.c.project_id == project)
    if beyond is None:
        return limited, used
    return _beyond(limited, beyond, descending=descending), _beyond(used, beyond, descending=descending)


def _beyond(query: Select[Any], last: tuple[str, str], *, descending: bool) -> Select[Any]:
    """Row by row: whoever has many limits is not compared with all of them."""
    project, resource_class = query.selected_columns
    if descending:
        return query.where(or_(project < last[0], and_(project == last[0], resource_class < last[1])))
    return query.where(or_(project > last[0], and_(project == last[0], resource_class > last[1])))


def _is(table: FromClause, project: ColumnElement[str], resource_class: ColumnElement[str]) -> ColumnElement[bool]:
    return and_(table.c.project_id == project, table.c.resource_class == resource_class)


def _used_by(keys: FromClause) -> Label[int]:
    """How many units a project has of a class."""
    counted = (
        select(func.count())
        .select_from(claims.join(deployables, deployables.c.id == claims.c.deployable_id))
        .where(claims.c.project_id == keys.c.project_id, deployables.c.resource_class == keys.c.resource_class)
    )
    return counted.scalar_subquery().label("used")


def _quota(row: Record) -> Quota:
    """A default is nobody's to inherit but a project's."""
    inherited = row.most is None and row.else_most is not None
    limit = row.else_most if inherited else row.most
    return Quota(row.project_id, row.resource_class, limit, row.used, inherited=inherited)


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
