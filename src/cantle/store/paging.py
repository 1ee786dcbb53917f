"""Many rows at once. Pages go by the sort key and the row number, never by counting rows: each costs the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, Table, and_, bindparam, or_
from sqlalchemy.sql.dml import ReturningInsert
from sqlalchemy.sql.elements import ColumnElement

from cantle.errors import BadRequest
from cantle.model.page import Page
from cantle.model.uuids import canonical
from cantle.store.types import Record


def window(
    connection: Connection,
    query: Select[Any],
    page: Page | None,
    table: Table,
    keys: Mapping[str, ColumnElement[Any]],
    *,
    parameters: Mapping[str, Any] | None = None,
    marker: ColumnElement[str] | None = None,
) -> Select[Any]:
    """The query cut down to one page.

    :param table: whose ``uuid`` is the marker and whose ``id`` breaks ties. The marker must be in the query's own result.
    :param marker: the column of the marker where it is no uuid.
    :param keys: expression by sort key. None of them may be NULL: the databases order NULL differently.
    :param parameters: of the query.
    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    """
    page = page or Page()
    key = _sort_key(page, keys)
    number: ColumnElement[int] = table.c.id
    if page.marker is not None:
        is_marked = table.c.uuid == (canonical(page.marker) or "") if marker is None else marker == page.marker
        last = connection.execute(query.with_only_columns(key, number).where(is_marked), parameters).first()
        if last is None:
            kind = "uuid" if marker is None else "name"
            raise BadRequest(
                "marker-not-found",
                f"marker is {page.marker!r}, which is not in this list; give the {kind} of an item of it.",
            )
        query = query.where(_beyond(key, number, last, page.sort_dir))
    query = _ordered(query, key, number, page)
    return query if page.limit is None else query.limit(page.limit)


def first_page(query: Select[Any], page: Page, table: Table, keys: Mapping[str, ColumnElement[Any]]) -> Select[Any]:
    """As `window`, without a marker, for a statement that is kept: a limit is its parameter ``most``.

    :raises BadRequest: ``bad-sort-key``.
    """
    query = _ordered(query, _sort_key(page, keys), table.c.id, page)
    return query if page.limit is None else query.limit(bindparam("most"))


def _sort_key(page: Page, keys: Mapping[str, ColumnElement[Any]]) -> ColumnElement[Any]:
    key = keys.get(page.sort_key)
    if key is None:
        raise BadRequest(
            "bad-sort-key", f"sort_key is {page.sort_key!r}; this list sorts by {', '.join(sorted(keys))}."
        )
    return key


def _ordered(query: Select[Any], key: ColumnElement[Any], number: ColumnElement[int], page: Page) -> Select[Any]:
    order = (key.desc(), number.desc()) if page.sort_dir == "desc" else (key.asc(), number.asc())
    return query.order_by(*order)


def _beyond(key: ColumnElement[Any], number: ColumnElement[int], last: Record, direction: str) -> ColumnElement[bool]:
    value, row = last
    if direction == "desc":
        return or_(key < value, and_(key == value, number < row))
    return or_(key > value, and_(key == value, number > row))


def narrowed(
    query: Select[Any], columns: Mapping[str, ColumnElement[Any]], where: Mapping[str, object] | None
) -> Select[Any]:
    """The query with only those rows whose columns are exactly this.

    :param where: value by name in ``columns``; None says nothing.
    """
    for name, value in (where or {}).items():
        if value is not None:
            query = query.where(columns[name] == value)
    return query


def numbers(connection: Connection, statement: ReturningInsert[Any], rows: Sequence[dict[str, Any]]) -> list[int]:
    """Insert rows, each with its ``uuid``, by a statement that returns ``id`` and ``uuid``; the ids in the order of the rows.

    The databases may return them in any order; asking SQLAlchemy to keep it would insert row by row.
    """
    made = {row.uuid: row.id for row in connection.execute(statement, list(rows))}
    return [made[row["uuid"]] for row in rows]


def chunks(values: Sequence[Any], size: int = 500) -> list[Sequence[Any]]:
    """Parts short enough for one statement's parameters."""
    return [values[start : start + size] for start in range(0, len(values), size)]
