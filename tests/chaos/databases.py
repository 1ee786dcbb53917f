"""A database for each run, copied from a saved one, that can be cut off and is let in again."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import psycopg
from tests.chaos.points import Board, Flag
from tests.postgres import Postgres


class Databases(Protocol):
    """All databases of one kind. Names are file names."""

    @property
    def layout(self) -> tuple[tuple[str, ...], ...]:
        """Which roles share a process: as they are deployed on this kind."""

    def url(self, name: str) -> str:
        """Of one database."""

    def make(self, name: str) -> None:
        """An empty, migrated one."""

    def copy(self, source: str, name: str) -> None:
        """One like another, to which nobody is connected."""

    def drop(self, name: str) -> None:
        """Delete it."""

    def cut(self, name: str, board: Board) -> None:
        """End its connections, and let nobody in."""

    def mend(self, name: str, board: Board) -> None:
        """Let everybody in again."""


class SqliteFiles:
    """Files in a directory. One process has the API and the keeper: SQLite is for `cantle serve`."""

    layout = (("api", "keeper"), ("agent",))

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def url(self, name: str) -> str:
        return f"sqlite:///{self._directory / name}.db"

    def make(self, name: str) -> None:
        _migrate(self.url(name))

    def copy(self, source: str, name: str) -> None:
        path = self._directory / f"{source}.db"
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        shutil.copy(path, self._directory / f"{name}.db")

    def drop(self, name: str) -> None:
        for path in self._directory.glob(f"{name}.db*"):
            path.unlink(missing_ok=True)

    def cut(self, name: str, board: Board) -> None:  # noqa: ARG002 - each run has a board of its own
        board[Flag.DATABASE_AWAY] = 1

    def mend(self, name: str, board: Board) -> None:  # noqa: ARG002
        board[Flag.DATABASE_AWAY] = 0


class PostgresDatabases:
    """Databases of the server that tests use. API, keeper and agent are three processes."""

    layout = (("api",), ("keeper",), ("agent",))

    def __init__(self, prefix: str) -> None:
        self._server = Postgres.shared()
        self._prefix = prefix

    def url(self, name: str) -> str:
        return self._server.url(self._prefix + name)

    def make(self, name: str) -> None:
        self._tell(f'CREATE DATABASE "{self._prefix}{name}"')
        _migrate(self.url(name))

    def copy(self, source: str, name: str) -> None:
        self._tell(f'CREATE DATABASE "{self._prefix}{name}" TEMPLATE "{self._prefix}{source}"')

    def drop(self, name: str) -> None:
        self._tell(f'DROP DATABASE IF EXISTS "{self._prefix}{name}" WITH (FORCE)')

    def cut(self, name: str, board: Board) -> None:  # noqa: ARG002 - the server does it for all processes
        self._tell(
            f'ALTER DATABASE "{self._prefix}{name}" WITH ALLOW_CONNECTIONS false',
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self._prefix}{name}'",  # noqa: S608 - our own name
        )

    def mend(self, name: str, board: Board) -> None:  # noqa: ARG002
        self._tell(f'ALTER DATABASE "{self._prefix}{name}" WITH ALLOW_CONNECTIONS true')

    def _tell(self, *statements: str) -> None:
        with psycopg.connect(self._server.url("postgres"), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


def _migrate(url: str) -> None:
    """In a process of its own: whoever forks later has no database open."""
    subprocess.run([sys.executable, "-m", "cantle.store.migrate", url], check=True, capture_output=True)


def of_kind(kind: str, directory: Path) -> Databases:
    """``sqlite`` or ``postgresql``."""
    return SqliteFiles(directory) if kind == "sqlite" else PostgresDatabases(f"{directory.name}-")
