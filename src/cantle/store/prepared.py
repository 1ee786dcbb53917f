"""Statements of the busiest paths: written as all others, compiled once, sent by the driver's own ``execute``.

`Connection.execute` looks a statement up by its structure, writes its lists of parameters out and wraps its rows anew for each call.
That is four fifths of the CPU of a small statement on SQLite (docs/performance.md). Here the same is done once for each number of
parameters. What stays as it is: the SQL, the conversion of values by column type, the transaction, SQLAlchemy's event
``before_cursor_execute``, its exceptions, and giving up a connection that broke.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from sqlalchemy import Connection, Delete, Dialect, Insert, Select, Update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

_Convert = Callable[[Any], Any]

#: Longer lists are sent by SQLAlchemy, and of each statement so many plans are kept: a caller who names ever more things takes no memory.
LONGEST = 100
KEPT = 128


class _Slot(NamedTuple):
    """A parameter of the driver's that a caller's value goes into.

    :param key: its position or its name, as the driver wants.
    :param given: the caller's name for it.
    :param place: where in the list given under that name, for a list.
    """

    key: Any
    given: str
    place: int | None
    convert: _Convert | None


@dataclass(frozen=True, slots=True)
class _Plan:
    """The statement for one kind of database and one length of each list. ``frame`` has the values that the statement brings itself."""

    sql: str
    frame: Any
    slots: tuple[_Slot, ...]

    def values(self, parameters: Mapping[str, Any]) -> Any:
        """As the driver takes them: a list by position, or a dictionary by name."""
        values = self.frame.copy()
        for key, given, place, convert in self.slots:
            value = parameters[given]
            if place is not None:
                value = value[place]
            values[key] = value if convert is None else convert(value)
        return values


class Prepared:
    """A statement with named parameters, for connections of `Database.read` and `Database.write`.

    An insert of plain rows is ``inline`` and names every column: SQLAlchemy's defaults are not filled in, nothing is returned.

    :param lists: names of the parameters that are lists, of ``IN``.
    """

    def __init__(self, statement: Select[Any] | Insert | Update | Delete, *, lists: Sequence[str] = ()) -> None:
        self._statement = statement
        self._lists = tuple(lists)
        self._plans: dict[tuple[object, ...], _Plan] = {}
        self._readers: dict[str, Callable[[Sequence[Any]], Any]] = {}

    def all(self, connection: Connection, parameters: Mapping[str, Any]) -> list[Any]:
        """Every row, as a named tuple of the statement's columns."""
        if self._is_long(parameters):
            return list(connection.execute(self._statement, dict(parameters)))
        cursor = self._send(connection, [parameters])
        name = connection.dialect.name
        try:
            found = cursor.fetchall()
            read = self._readers.get(name)
            if read is None:
                kinds = [column[1] for column in cursor.description]
                read = self._readers[name] = _reader(self._statement, connection.dialect, kinds)
        except connection.dialect.loaded_dbapi.Error as error:
            _raise(connection, cursor, "", None, error)
        finally:
            cursor.close()
        return [read(row) for row in found]

    def first(self, connection: Connection, parameters: Mapping[str, Any]) -> Any:
        """The first row, or None."""
        rows = self.all(connection, parameters)
        return rows[0] if rows else None

    def change(self, connection: Connection, *rows: Mapping[str, Any]) -> int:
        """Send it once with each of these sets of parameters, which have lists of the same lengths; how many rows were changed. Only in
        a transaction (not in `Database.look`)."""
        assert connection.in_transaction()  # noqa: S101 - only those of `Database.write` are ended by a COMMIT
        if self._is_long(rows[0]):
            return sum(connection.execute(self._statement, dict(row)).rowcount for row in rows)
        cursor = self._send(connection, rows)
        changed: int = cursor.rowcount
        cursor.close()
        return changed

    def _is_long(self, parameters: Mapping[str, Any]) -> bool:
        return any(len(parameters[name]) > LONGEST for name in self._lists)

    def _send(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> Any:
        plan = self._plan(connection.dialect, rows[0])
        many = len(rows) > 1
        values = [plan.values(row) for row in rows] if many else plan.values(rows[0])
        cursor = connection.connection.cursor()
        for listener in connection.dispatch.before_cursor_execute:
            listener(connection, cursor, plan.sql, values, None, many)
        send = connection.dialect.do_executemany if many else connection.dialect.do_execute
        try:
            send(cursor, plan.sql, values)
        except connection.dialect.loaded_dbapi.Error as error:
            _raise(connection, cursor, plan.sql, values, error)
        return cursor

    def _plan(self, dialect: Dialect, parameters: Mapping[str, Any]) -> _Plan:
        key = (dialect.name, *[len(parameters[name]) for name in self._lists])
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= KEPT:
                self._plans.clear()
            plan = self._plans[key] = _planned(self._statement, dialect, parameters)
        return plan


def _planned(statement: Any, dialect: Dialect, parameters: Mapping[str, Any]) -> _Plan:
    compiled: SQLCompiler = statement.compile(dialect=dialect)
    state = compiled.construct_expanded_state(dict(parameters))
    sources: dict[str, tuple[str, int | None]] = {name: (name, None) for name in compiled.binds}
    for name, parts in state.parameter_expansion.items():
        sources.update({part: (name, place) for place, part in enumerate(parts)})
    names = list(state.positiontup or ()) if compiled.positional else list(state.parameters)
    frame: Any = [None] * len(names) if compiled.positional else {}
    slots = []
    for position, name in enumerate(names):
        key = position if compiled.positional else name
        source, place = sources[name]
        convert = compiled.binds[source].type.dialect_impl(dialect).bind_processor(dialect)
        if source in parameters:
            slots.append(_Slot(key, source, place, convert))
        else:
            fixed = state.parameters[name]
            frame[key] = fixed if convert is None else convert(fixed)
    return _Plan(state.statement, frame, tuple(slots))


def _reader(statement: Any, dialect: Dialect, kinds: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
    """What makes a row of the driver's into a named tuple. ``kinds`` are the driver's own words for the types of the columns."""
    columns = statement.selected_columns
    kind: Any = namedtuple("Row", columns.keys())  # type: ignore[misc] # the names are the statement's
    make: Callable[[Sequence[Any]], Any] = kind._make
    found = [
        (place, _from_database(column.type, dialect, kind))
        for place, (column, kind) in enumerate(zip(columns, kinds, strict=True))
    ]
    converters = [(place, convert) for place, convert in found if convert is not None]
    if not converters:
        return make

    def read(row: Sequence[Any]) -> Any:
        values = list(row)
        for place, convert in converters:
            if (value := values[place]) is not None:  # no type of ours makes anything of NULL
                values[place] = convert(value)
        return make(values)

    return read


def _from_database(type_: TypeEngine[Any], dialect: Dialect, kind: Any) -> _Convert | None:
    return type_.dialect_impl(dialect).result_processor(dialect, kind)


def _raise(connection: Connection, cursor: Any, sql: str, values: Any, error: Any) -> NoReturn:
    """As SQLAlchemy does it: its exception, and a connection that broke is not used again."""
    dialect = connection.dialect
    broke = dialect.is_disconnect(error, connection.connection, cursor)
    if broke:
        connection.invalidate(error)
    raise DBAPIError.instance(
        sql, values, error, dialect.loaded_dbapi.Error, connection_invalidated=broke, dialect=dialect
    ) from error
