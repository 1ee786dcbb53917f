"""Unit-seconds by project and class: what is over from the audit log, what goes on from the claims."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from sqlalchemy import Connection, select

from cantle.model.audit import UNIT_FORCED, UNIT_RETURNED
from cantle.store.audit_table import audit_records as log
from cantle.store.tables import claims, deployables
from cantle.store.types import Record, database_now

_OVER = select(log.c.owner_id, log.c.resource_class, log.c.since, log.c.created_at.label("until")).where(
    log.c.action.in_([UNIT_RETURNED, UNIT_FORCED]), log.c.owner_id.is_not(None), log.c.since.is_not(None)
)
_OPEN = (
    select(
        claims.c.project_id.label("owner_id"),
        deployables.c.resource_class,
        claims.c.lent_at.label("since"),
        database_now().label("until"),
    )
    .join(deployables, deployables.c.id == claims.c.deployable_id)
    .where(claims.c.project_id.is_not(None), claims.c.lent_at.is_not(None))
)
#: Rows fetched at a time.
_BATCH = 2000


def loans(connection: Connection, begin: dt.datetime, end: dt.datetime, project: str | None) -> Iterator[Record]:
    """owner_id, resource_class, since, until of loans that were over after ``begin`` and had begun before ``end``; read piece by piece."""
    query = _OVER.where(log.c.created_at > begin, log.c.since < end)
    if project is not None:
        query = query.where(log.c.owner_id == project)
    yield from connection.execution_options(yield_per=_BATCH).execute(query)


def standing(connection: Connection, end: dt.datetime, project: str | None) -> Iterator[Record]:
    """owner_id, resource_class, since, until (which is now) of units that are lent or still being taken back, claimed before ``end``."""
    query = _OPEN.where(claims.c.lent_at < end)
    if project is not None:
        query = query.where(claims.c.project_id == project)
    yield from connection.execution_options(yield_per=_BATCH).execute(query)
