"""Bring a database's schema to what this version needs: ``python -m cantle.store.migrate URL``.

Importing Alembic costs more memory than the whole API server, so a long-running process lets a child do it: `cantle.store.upgrade`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from cantle.errors import BadConfig, CantleError
from cantle.store.database import Database
from cantle.store.revision import HEAD
from cantle.store.schema import metadata

#: Key of the lock that keeps two servers from migrating one database at once; any number, as long as it never changes.
_LOCK = 7_203_415_906


#: How our revisions are named.
_OURS = re.compile(r"\d{4}")


def upgrade(url: str) -> None:
    """Run all migrations that are missing, in one transaction where the database has transactions for that (all but MariaDB).

    :raises BadConfig: ``bad-database-url``, ``database-foreign``.
    :raises Unavailable: ``database-too-new``, ``database-…``, see `cantle.store.database.Database`.
    """
    database = Database.open(url, check=False)
    try:
        with database.write() as connection, _alone(connection):
            found = MigrationContext.configure(connection).get_current_revision()
            _refuse_foreign(connection, database.where, found)
            if found is not None and found > HEAD:
                raise database.too_new(found)
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    finally:
        database.close()


def _refuse_foreign(connection: Connection, where: str, revision: str | None) -> None:
    """Do not add our tables to another program's database. A SQLite file is one program's; a server's database may have others' tables
    beside ours, as extensions bring them, as long as none has our names."""
    tables = set(inspect(connection).get_table_names()) - {"alembic_version"}
    if connection.dialect.name != "sqlite":
        tables &= set(metadata.tables)
    if (revision is None and tables) or (revision is not None and _OURS.fullmatch(revision) is None):
        has = f"the tables {', '.join(sorted(tables)[:5])}" if tables else f"the schema {revision}"
        raise BadConfig(
            "database-foreign",
            f"The database {where} has {has} and no schema of Cantle's: it is another program's, or was broken off while it was made. "
            "Name another one.",
        )


def current(url: str) -> str | None:
    """The revision the database is at; None before the first migration."""
    database = Database.open(url, check=False)
    if database.is_missing:
        return None
    try:
        with database.read() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    finally:
        database.close()


def head() -> str:
    """The newest revision there is."""
    found = ScriptDirectory.from_config(_config()).get_current_head()
    assert found is not None  # noqa: S101 - there is always a first migration
    return found


@contextmanager
def _alone(connection: Connection) -> Iterator[None]:
    """Let one server migrate at a time. SQLite's writer is alone anyway; PostgreSQL gives the lock back with the transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    elif connection.dialect.name in ("mysql", "mariadb"):
        connection.execute(text("SELECT GET_LOCK('cantle-migrate', 300)"))
    yield
    if connection.dialect.name in ("mysql", "mariadb"):
        connection.execute(text("SELECT RELEASE_LOCK('cantle-migrate')"))


def _directory() -> Path:
    """Where the migrations are, in a checkout as in an installed wheel."""
    return Path(__file__).parent / "migrations"


def _config() -> Config:
    """Alembic's settings, made here: an installed wheel has no alembic.ini beside it."""
    config = Config()
    config.set_main_option("script_location", str(_directory()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def main(arguments: list[str]) -> int:
    """``URL``, or ``-`` to read it from standard input, where a password in it is seen by nobody."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m cantle.store.migrate URL|-\n")
        return 2
    url = sys.stdin.readline().strip() if arguments[0] == "-" else arguments[0]
    try:
        upgrade(url)
    except CantleError as error:
        sys.stderr.write(f"{error.code}: {error.message}\n")
        return os.EX_CONFIG if isinstance(error, BadConfig) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
