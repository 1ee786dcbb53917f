"""Migrated databases for tests: a copied file on SQLite, one emptied database on PostgreSQL.

Where a MariaDB is at hand, its URL in ``CANTLE_TEST_MARIADB`` makes the same tests run there too; that database is emptied as well.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from sqlalchemy import delete
from tests.postgres import Postgres

from cantle.store import migrate
from cantle.store.database import Database
from cantle.store.schema import metadata

MARIADB = os.environ.get("CANTLE_TEST_MARIADB")
KINDS = ("sqlite", "postgresql", "mariadb") if MARIADB else ("sqlite", "postgresql")


@contextmanager
def database(kind: str, directory: Path) -> Iterator[Database]:
    """An empty, migrated database of that kind; a SQLite one lies in the directory."""
    if kind == "sqlite":
        db = Database.open(sqlite_url(directory))
        try:
            yield db
        finally:
            db.close()
    else:
        db = _server_database(kind)
        with db.write() as connection:
            for table in reversed(metadata.sorted_tables):
                connection.execute(delete(table))
        yield db


def sqlite_url(directory: Path) -> str:
    """The URL of a new, migrated file in the directory."""
    shutil.copy(_migrated_file(), directory / "cantle.db")
    return f"sqlite:///{directory / 'cantle.db'}"


def postgres_url() -> str:
    """The URL of the one migrated PostgreSQL database of this process."""
    return server_url("postgresql")


@cache
def server_url(kind: str) -> str:
    """The URL of the one migrated database of this process on a server of that kind."""
    url = MARIADB if kind == "mariadb" else Postgres.shared().new_database()
    assert url is not None
    migrate.upgrade(url)
    return url


@cache
def _server_database(kind: str) -> Database:
    db = Database.open(server_url(kind))
    atexit.register(db.close)
    return db


@cache
def _migrated_file() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="cantle-test-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    migrate.upgrade(f"sqlite:///{directory / 'migrated.db'}")
    return directory / "migrated.db"
