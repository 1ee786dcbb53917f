"""Records of who did what. There is no way to change one, and one way to delete old ones, which is recorded too."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, or_, select

from cantle.model import uuids
from cantle.model.audit import Record as AuditRecord
from cantle.model.page import Page
from cantle.store.audit_table import audit_records as table
from cantle.store.paging import narrowed, window
from cantle.store.prepared import Prepared
from cantle.store.types import Record, database_now

SORT_KEYS = {"created_at": table.c.created_at, "action": table.c.action, "uuid": table.c.uuid}

#: What a list can be narrowed by.
FILTERS = {
    name: table.c[name]
    for name in (
        *("action", "user_id", "owner_id", "hostname", "device"),
        *("unit_uuid", "lease_uuid", "arq_uuid", "instance_uuid", "request_id"),
    )
}

_ADD = Prepared(
    insert(table)
    .inline()
    .values(
        created_at=database_now(),
        **{column.key: bindparam(column.key) for column in table.c if column.key not in ("id", "created_at")},
    )
)
_UNSAID = dict.fromkeys(column.key for column in table.c)

#: Those that were written after a record, and those that a slower transaction may have written before it and committed after it.
_AFTER = (
    select(table)
    .where(
        or_(
            table.c.id > bindparam("last"),
            and_(
                table.c.id > bindparam("last") - bindparam("reach"),
                table.c.created_at > database_now(bindparam("seconds")),
            ),
        )
    )
    .order_by(table.c.id)
    .limit(bindparam("most"))
)
_PLACE = select(table.c.id, table.c.created_at, database_now().label("now")).where(table.c.uuid == bindparam("of"))
_LAST = select(func.coalesce(func.max(table.c.id), 0))


def add(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write records. Uuid and time are made here; what a row does not name is NULL."""
    if rows:
        _ADD.change(connection, *({**_UNSAID, "uuid": uuids.new(), **row} for row in rows))


def listed(
    connection: Connection,
    where: Mapping[str, object],
    *,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    page: Page | None,
) -> list[AuditRecord]:
    """Records whose `FILTERS` are exactly these, written from ``since`` on and before ``until``."""
    query = narrowed(select(table), FILTERS, where)
    if since is not None:
        query = query.where(table.c.created_at >= since)
    if until is not None:
        query = query.where(table.c.created_at < until)
    return [record(row) for row in connection.execute(window(connection, query, page, table, SORT_KEYS))]


def after(connection: Connection, last: int, *, reach: int, seconds: float, most: int) -> list[AuditRecord]:
    """Records beyond that number, and those of the last ``seconds`` whose number is at most ``reach`` below it, oldest first."""
    values = {"last": last, "reach": reach, "seconds": -seconds, "most": most}
    return [record(row) for row in connection.execute(_AFTER, values)]


def place(connection: Connection, uuid: str) -> tuple[int, float] | None:
    """The number of a record, and how many seconds ago it was written; None for one that is not there."""
    row = connection.execute(_PLACE, {"of": uuid}).first()
    return None if row is None else (row.id, (row.now - row.created_at).total_seconds())


def last(connection: Connection) -> int:
    """The highest number there is; 0 for none."""
    return int(connection.execute(_LAST).scalar_one())


def purge(connection: Connection, days: float) -> int:
    """Delete what was written so many days ago; how many. The caller records that in the same transaction."""
    return connection.execute(delete(table).where(table.c.created_at < database_now(-86400.0 * days))).rowcount


def record(row: Record) -> AuditRecord:
    """The value of a row."""
    return AuditRecord(**row._mapping)
