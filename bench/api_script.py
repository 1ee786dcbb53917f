"""The SQL of requests, written down once and replayed through the bare driver: the floor that measurements are compared with.

While `recording`, everything that reaches a driver's cursor is kept with its parameters, transaction by transaction. `Replayer` sends
the very same to a copy of the same database: the same statements, the same rows changed, the same commits; no SQLAlchemy, no objects made
of rows.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Engine, event
from sqlalchemy.engine import make_url

#: Statement, parameters, and whether it is sent once for each of several sets of parameters.
Statement = tuple[str, Any, bool]


class Transaction:
    """What one transaction sent.

    :param alone: one query that no transaction was begun for (`Database.look`).
    """

    def __init__(self, *, alone: bool = False) -> None:
        self.statements: list[Statement] = []
        self.alone = alone

    @property
    def writes(self) -> bool:
        """Whether it is one of the writing connection's. Those that only read hold nothing but SELECT."""
        return not all(statement.startswith("SELECT") for statement, _parameters, _many in self.statements)


Script = list[Transaction]

#: What the engine for SQLite sends itself; the replayer begins in its own way.
_BEGINS = ("BEGIN", "PRAGMA")


@contextmanager
def recording() -> Iterator[Script]:
    """All transactions of this thread while the block runs, in the order in which they began. Connections opened before are included."""
    script: Script = []
    open_ones: dict[int, Transaction] = {}
    ours = threading.get_ident()

    def begin(connection: Any) -> None:
        if threading.get_ident() != ours:
            return  # who polls for what other processes wrote
        open_ones[id(connection)] = Transaction()
        script.append(open_ones[id(connection)])

    def end(connection: Any) -> None:
        if threading.get_ident() == ours:
            open_ones.pop(id(connection), None)

    def send(connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        if threading.get_ident() != ours or statement.startswith(_BEGINS):
            return
        sent = open_ones.get(id(connection))
        if sent is None:
            sent = Transaction(alone=True)
            script.append(sent)
        sent.statements.append((statement, parameters, many))

    hooks: dict[str, Callable[..., None]] = {
        "begin": begin,
        "commit": end,
        "rollback": end,
        "before_cursor_execute": send,
    }
    for name, hook in hooks.items():
        event.listen(Engine, name, hook)
    try:
        yield script
    finally:
        for name, hook in hooks.items():
            event.remove(Engine, name, hook)


class Replayer:
    """Sends scripts to the database at that URL, from any number of threads: as our own store does, one writer at a time on SQLite,
    and connections that are kept."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self._sqlite = self._url.get_backend_name() == "sqlite"
        self._idle: dict[tuple[bool, bool], queue.SimpleQueue[Any]] = defaultdict(queue.SimpleQueue)
        self._one_writer = threading.Lock()

    def replay(self, script: Script) -> None:
        """All transactions of the script, in order; every row they find is fetched."""
        for transaction in script:
            if transaction.writes and self._sqlite:
                with self._one_writer:
                    self._send(transaction)
            else:
                self._send(transaction)

    def _send(self, transaction: Transaction) -> None:
        kind = (transaction.writes, transaction.alone)
        try:
            connection = self._idle[kind].get_nowait()
        except queue.Empty:
            connection = self._connect(writes=transaction.writes)
            if transaction.alone and not self._sqlite:
                self._of_itself(connection)
        cursor = connection.cursor()
        if self._sqlite and not transaction.alone:
            cursor.execute("BEGIN IMMEDIATE" if transaction.writes else "BEGIN")
        for statement, parameters, many in transaction.statements:
            if many:
                cursor.executemany(statement, parameters)
            else:
                cursor.execute(statement, parameters)
            if cursor.description is not None:
                cursor.fetchall()
        cursor.close()
        if not transaction.alone:
            connection.commit()
        self._idle[kind].put(connection)

    def _of_itself(self, connection: Any) -> None:
        """Each statement is a transaction: neither BEGIN nor COMMIT is sent."""
        if self._url.get_backend_name() == "postgresql":
            connection.autocommit = True
        else:
            connection.autocommit(True)

    def _connect(self, *, writes: bool) -> Any:
        if self._sqlite:
            connection = sqlite3.connect(self._url.database or "", isolation_level=None, check_same_thread=False)
            for pragma in ("busy_timeout = 5000", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                connection.execute(f"PRAGMA {pragma}")
            return connection
        if self._url.get_backend_name() != "postgresql":
            return self._connect_mariadb(writes=writes)
        remote = psycopg.connect(
            host=str(self._url.query.get("host", self._url.host)), user=self._url.username, dbname=self._url.database
        )
        level = psycopg.IsolationLevel
        remote.isolation_level = level.READ_COMMITTED if writes else level.REPEATABLE_READ
        remote.read_only = not writes
        return remote

    def _connect_mariadb(self, *, writes: bool) -> Any:
        import pymysql  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)

        where = {"host": self._url.host, "port": self._url.port, "database": self._url.database}
        server = pymysql.connect(**where, user=self._url.username, password=self._url.password, charset="utf8mb4")
        with server.cursor() as cursor:
            level = "READ COMMITTED" if writes else "REPEATABLE READ"
            cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
            cursor.execute(f"SET SESSION TRANSACTION READ {'WRITE' if writes else 'ONLY'}")
        return server
