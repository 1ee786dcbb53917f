"""How to connect to each kind of database: one engine that only reads, one that writes."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError

from cantle.errors import BadConfig
from cantle.store.pool import keep

#: The driver used for each kind, whatever the URL says before the colon.
_DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}

#: Connections kept open, for reading and for writing each: as many as `cantle serve` serves requests at once. With fewer, a busy server
#: opens and closes one for every other request, which costs PostgreSQL a process each time. The one used last is taken first: its caches
#: are warm. On a server 8 more of each are kept once they were needed: 40 of one process at most, and whoever finds none waits his turn.
_KEPT: dict[str, Any] = {"pool_size": 12, "pool_use_lifo": True}

#: How long SQLite waits for another process that holds the file; in our own process a lock queues the writers.
_BUSY_MS = 5000


def parse(url: str) -> URL:
    """A database URL such as ``sqlite:////var/lib/cantle/cantle.db`` or ``postgresql://cantle@db/cantle``, with our driver for it.

    :raises BadConfig: ``bad-database-url``.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise _bad("it is no URL") from None
    kind = parsed.get_backend_name()
    if kind not in _DRIVERS:
        raise _bad(f"{kind} is not supported")
    if kind == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise _bad("SQLite needs a file that all our threads can open")
    return parsed.set(drivername=_DRIVERS[kind])


def shown(url: URL) -> str:
    """The database as a person names it, without its password."""
    if url.get_backend_name() == "sqlite":
        return str(Path(url.database or "").absolute())
    return f"{url.username or ''}@{url.host or 'localhost'}/{url.database or ''}"


def reader(url: URL) -> Engine:
    """An engine whose transactions see one moment of the database and cannot change it. A statement that is sent by the driver without a
    transaction is one by itself: neither a beginning nor an end is sent for it.

    :raises BadConfig: ``database-driver-missing``.
    """
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, max_overflow=52, **_KEPT)
        _prepare_sqlite(engine, query_only=True)
        _begin_by_driver(engine, "BEGIN")
        return engine
    engine = _engine(url, isolation_level="AUTOCOMMIT", **_arguments(url))
    if url.get_backend_name() == "postgresql":
        _begin_by_driver(engine, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    else:
        event.listen(engine, "connect", _read_only_mysql)
        _begin_by_driver(engine, "START TRANSACTION READ ONLY")
    return engine


def writer(url: URL) -> Engine:
    """An engine whose transactions write; each statement sees what was committed before it began.

    :raises BadConfig: ``database-driver-missing``.
    """
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, pool_size=1, max_overflow=0)
        _prepare_sqlite(engine, query_only=False)
        _begin_by_driver(engine, "BEGIN IMMEDIATE")
        return engine
    return _engine(url, isolation_level="READ COMMITTED", **_arguments(url))


def _engine(url: URL, **options: Any) -> Engine:
    """:raises BadConfig: ``database-driver-missing``."""
    try:
        engine = create_engine(url, **options)
    except ModuleNotFoundError as error:
        extra = "postgresql" if url.get_backend_name() == "postgresql" else "mysql"
        raise BadConfig(
            "database-driver-missing",
            f"{shown(url)} needs the Python module {error.name}, which is not installed. "
            f"Install Cantle with its extra: pip install 'cantle[{extra}]'.",
        ) from None
    keep(engine)
    return engine


def _arguments(url: URL) -> dict[str, Any]:
    common: dict[str, Any] = {**_KEPT, "pool_size": 20, "max_overflow": 0, "pool_reset_on_return": None}
    if url.get_backend_name() == "postgresql":
        return {**common, "connect_args": {"connect_timeout": 10, "application_name": "cantle"}}
    return {**common, "connect_args": {"connect_timeout": 10, "charset": "utf8mb4"}, "pool_recycle": 3000}


def _read_only_mysql(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("SET SESSION TRANSACTION READ ONLY, ISOLATION LEVEL REPEATABLE READ")
    cursor.close()


def _prepare_sqlite(engine: Engine, *, query_only: bool) -> None:
    """WAL, so that readers never wait; FULL, so that what was answered survives a power cut; the writer takes its lock at once,
    so that two of them queue instead of failing half-way."""

    def connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # the module must not begin transactions by itself
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        if not query_only:
            cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute(f"PRAGMA query_only = {'ON' if query_only else 'OFF'}")
        cursor.close()

    event.listen(engine, "connect", connect)


def _begin_by_driver(engine: Engine, begin: str) -> None:
    """Every transaction begins so, by the driver itself: through SQLAlchemy it costs ten times as much."""

    def start(connection: Connection) -> None:
        cursor = connection.connection.cursor()
        try:
            cursor.execute(begin)
        except engine.dialect.loaded_dbapi.Error as error:
            broke = engine.dialect.is_disconnect(error, connection.connection, cursor)
            if broke:
                connection.invalidate(error)
            raise DBAPIError.instance(
                begin,
                None,
                error,
                engine.dialect.loaded_dbapi.Error,
                connection_invalidated=broke,
                dialect=engine.dialect,
            ) from error
        finally:
            cursor.close()

    event.listen(engine, "begin", start)


def _bad(why: str) -> BadConfig:
    return BadConfig(
        "bad-database-url",
        f"The database URL cannot be used: {why}. Write sqlite:////absolute/path, postgresql://user@host/name or mariadb://user@host/name.",
    )
