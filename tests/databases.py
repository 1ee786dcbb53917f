"""Migrated databases for tests: a copied file on SQLite, one emptied database on PostgreSQL."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from sqlalchemy import text
from tests.postgres import Postgres

from cantle.store import migrate
from cantle.store.database import Database
from cantle.store.tables import metadata

KINDS = ("sqlite", "postgresql")


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
        db = _postgres_database()
        with db.write() as connection:
            for table in reversed(metadata.sorted_tables):
                connection.execute(text(f'DELETE FROM "{table.name}"'))  # noqa: S608 - our own names
        yield db


def sqlite_url(directory: Path) -> str:
    """The URL of a new, migrated file in the directory."""
    shutil.copy(_migrated_file(), directory / "cantle.db")
    return f"sqlite:///{directory / 'cantle.db'}"


@cache
def postgres_url() -> str:
    """The URL of the one migrated PostgreSQL database of this process."""
    url = Postgres.shared().new_database()
    migrate.upgrade(url)
    return url


@cache
def _postgres_database() -> Database:
    db = Database.open(postgres_url())
    atexit.register(db.close)
    return db


@cache
def _migrated_file() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="cantle-test-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    migrate.upgrade(f"sqlite:///{directory / 'migrated.db'}")
    return directory / "migrated.db"
