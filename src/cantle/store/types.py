"""Column types that mean the same on SQLite, PostgreSQL and MariaDB, and the database's own clock."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from sqlalchemy import BigInteger, DateTime, Dialect, Integer, Row, String, Text
from sqlalchemy.dialects.mysql import DATETIME, LONGTEXT, VARCHAR
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.expression import literal
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

if TYPE_CHECKING:
    #: A row with whatever columns its query names.
    Record = Row[*tuple[Any, ...]]
else:
    Record = Row

#: Row numbers. SQLite's own 64-bit row id is only used for a column declared INTEGER.
RowId = BigInteger().with_variant(Integer(), "sqlite")


def name(length: int = 255) -> TypeEngine[str]:
    """A string compared byte by byte: MariaDB's default collation takes ``gold`` and ``Gold`` for one, the others do not."""
    return String(length).with_variant(VARCHAR(length, collation="utf8mb4_bin"), "mysql", "mariadb")


Uuid = name(36)


#: Text that may grow beyond the 64 KB that MariaDB's TEXT takes.
LongText = Text().with_variant(LONGTEXT(), "mysql", "mariadb")


class UtcTime(TypeDecorator[dt.datetime]):
    """An aware time, kept as UTC without a zone, to the microsecond."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """MariaDB cuts to seconds unless told otherwise."""
        if dialect.name in ("mysql", "mariadb"):
            return dialect.type_descriptor(DATETIME(fsp=6))
        return dialect.type_descriptor(DateTime())

    def process_bind_param(self, value: dt.datetime | None, _dialect: Dialect) -> dt.datetime | None:
        """To the database: in UTC, the zone taken off."""
        return None if value is None else value.astimezone(dt.UTC).replace(tzinfo=None)

    def process_result_value(self, value: dt.datetime | None, _dialect: Dialect) -> dt.datetime | None:
        """From the database: the zone put on again."""
        return None if value is None else value.replace(tzinfo=dt.UTC)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], dt.datetime | None] | None:
        """SQLite's text is read with its zone at once, in a fifth of the time: every list has two times a row."""
        return _from_text if dialect.name == "sqlite" else super().result_processor(dialect, coltype)


def _from_text(value: str | None) -> dt.datetime | None:
    return None if value is None else dt.datetime.fromisoformat(f"{value}+00:00")


class _JsonText(TypeDecorator[Any]):
    """A JSON value kept as text, so that each database stores the very same characters."""

    impl = Text
    cache_ok = True
    decoder: ClassVar[msgspec.json.Decoder[Any]]

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name in ("mysql", "mariadb"):
            return dialect.type_descriptor(LONGTEXT())
        return dialect.type_descriptor(Text())

    def process_bind_param(self, value: Any, _dialect: Dialect) -> str | None:
        return None if value is None else msgspec.json.encode(value).decode()

    def result_processor(self, _dialect: Dialect, _coltype: object) -> Callable[[Any], Any]:
        decode = self.decoder.decode
        return lambda text: None if text is None else decode(text)


class Words(_JsonText):
    """``tuple[str, ...]``. The same few stand in thousands of rows (the traits of a profile), so what they mean is remembered."""

    cache_ok = True
    decoder = msgspec.json.Decoder(tuple[str, ...])

    def result_processor(self, _dialect: Dialect, _coltype: object) -> Callable[[Any], Any]:
        """Most rows have one of a few lists: each is decoded once."""
        return _words


@lru_cache(maxsize=1024)
def _words(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else Words.decoder.decode(text)


class Facts(_JsonText):
    """``dict[str, str]``."""

    cache_ok = True
    decoder = msgspec.json.Decoder(dict[str, str])


class FactsByName(_JsonText):
    """``dict[str, dict[str, str]]``."""

    cache_ok = True
    decoder = msgspec.json.Decoder(dict[str, dict[str, str]])


class Sockets(_JsonText):
    """``dict[int, int | None]``: a host's sockets by node. Hosts have a few different ones, so what they mean is remembered."""

    cache_ok = True
    decoder = msgspec.json.Decoder(dict[int, int | None])

    def result_processor(self, _dialect: Dialect, _coltype: object) -> Callable[[Any], Any]:
        """Read beside every card: each text is decoded once. Nobody changes what comes out."""
        return sockets


@lru_cache(maxsize=1024)
def sockets(text: str | None) -> dict[int, int | None] | None:
    """What `Sockets` keeps, for whoever reads so many rows that SQLAlchemy's own way to it counts."""
    return None if text is None else Sockets.decoder.decode(text)


class Groups(_JsonText):
    """``tuple[dict[str, str], ...]``: the groups of a device profile."""

    cache_ok = True
    decoder = msgspec.json.Decoder(tuple[dict[str, str], ...])


class Rows(_JsonText):
    """``tuple[tuple[str, str, str], ...]``: the problems of a host's report."""

    cache_ok = True
    decoder = msgspec.json.Decoder(tuple[tuple[str, str, str], ...])


class database_now(FunctionElement[dt.datetime]):
    """The database's clock plus a number of seconds, which may be negative.

    Deadlines, expiry and heartbeats are compared with nothing else: servers' clocks differ, the database has one.
    """

    type = UtcTime()
    inherit_cache = True

    def __init__(self, seconds: ColumnElement[float] | float = 0.0) -> None:
        super().__init__(seconds if isinstance(seconds, ColumnElement) else literal(float(seconds)))


@compiles(database_now, "sqlite")
def _now_sqlite(element: database_now, compiler: SQLCompiler, **kw: Any) -> str:
    # Six digits behind the point, as SQLAlchemy writes times there: they are compared as text.
    return f"(strftime('%Y-%m-%d %H:%M:%f', 'now', CAST({compiler.process(element.clauses, **kw)} AS TEXT) || ' seconds') || '000')"


@compiles(database_now, "postgresql")
def _now_postgresql(element: database_now, compiler: SQLCompiler, **kw: Any) -> str:
    # clock_timestamp: the usual now() is the start of the transaction, which may have waited for a lock.
    return f"(timezone('utc', clock_timestamp()) + make_interval(secs => {compiler.process(element.clauses, **kw)}))"


@compiles(database_now, "mysql")
@compiles(database_now, "mariadb")
def _now_mysql(element: database_now, compiler: SQLCompiler, **kw: Any) -> str:
    return f"TIMESTAMPADD(MICROSECOND, 1000000 * {compiler.process(element.clauses, **kw)}, UTC_TIMESTAMP(6))"
