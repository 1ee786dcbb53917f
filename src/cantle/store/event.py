"""Events as people look at them. How they are sent is in `cantle.store.outbox`."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, select

from cantle.model.event import Told
from cantle.model.page import Page
from cantle.store.paging import narrowed, window
from cantle.store.tables import outbox
from cantle.store.types import Record

SORT_KEYS = {"created_at": outbox.c.created_at, "type": outbox.c.type, "uuid": outbox.c.uuid}

#: What a list can be narrowed by.
FILTERS = {"channel": outbox.c.channel, "type": outbox.c.type, "about": outbox.c.about}


def listed(connection: Connection, where: Mapping[str, object], *, ended: bool | None, page: Page | None) -> list[Told]:
    """Events whose `FILTERS` are exactly these."""
    query = narrowed(select(outbox), FILTERS, where)
    if ended is not None:
        query = query.where(outbox.c.ended_at.is_not(None) if ended else outbox.c.ended_at.is_(None))
    return [_told(row) for row in connection.execute(window(connection, query, page, outbox, SORT_KEYS))]


def _told(row: Record) -> Told:
    return Told(
        uuid=row.uuid,
        channel=row.channel,
        type=row.type,
        about=row.about,
        body=row.body,
        attempts=row.attempts,
        created_at=row.created_at,
        due_at=row.due_at,
        ended_at=row.ended_at,
        outcome=row.outcome,
        problem=row.problem,
    )
