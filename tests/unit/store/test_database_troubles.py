"""The database under bad luck: its file, its server, and what a person is told."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import insert, make_url, select, update
from sqlalchemy.exc import DBAPIError
from tests.databases import server_url, sqlite_url
from tests.postgres import Postgres
from tests.unit.store.database_rows import host_row, names, refused

from cantle.errors import BadConfig
from cantle.store import engines, faults, migrate
from cantle.store.database import Database
from cantle.store.tables import hosts

# SQLite and what can happen to its file.


def test_what_was_answered_is_on_the_disk(sqlite: Database) -> None:
    """WAL with a sync at each commit: a power cut after the answer takes nothing back."""
    with sqlite.write() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1


@pytest.mark.parametrize("url", ["", "x", "oracle://h/x", "sqlite://", "sqlite:///:memory:", "postgresql"])
def test_urls_that_cannot_be_are_refused_without_showing_them(url: str) -> None:
    with refused("bad-database-url", BadConfig):
        Database.open(url)


def test_the_name_of_a_database_shows_no_password() -> None:
    assert engines.shown(engines.parse("postgresql://me:secret@db.example/cantle")) == "me@db.example/cantle"
    assert "secret" not in engines.shown(engines.parse("mysql://me:secret@/cantle"))


def test_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    with refused("database-cannot-open"):
        Database.open(f"sqlite:///{tmp_path / 'absent' / 'cantle.db'}")


@pytest.fixture
def common_place() -> Iterator[Path]:
    """A directory that any user can enter."""
    path = Path(tempfile.mkdtemp(prefix="cantle common "))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@contextmanager
def without_root() -> Iterator[None]:
    """Nothing may be written that is not ours; root would be let through."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def test_a_directory_that_may_not_be_written(common_place: Path) -> None:
    common_place.chmod(0o555)
    with without_root(), refused("database-cannot-open"):
        Database.open(f"sqlite:///{common_place / 'cantle.db'}")
    common_place.chmod(0o755)


def test_a_file_that_may_not_be_written_can_still_be_read(common_place: Path) -> None:
    url = sqlite_url(common_place)
    with closing(sqlite3.connect(common_place / "cantle.db")) as plain:
        plain.execute("PRAGMA journal_mode = DELETE")
    (common_place / "cantle.db").chmod(0o444)
    common_place.chmod(0o555)
    with without_root():
        db = Database.open(url)
        assert names(db) == []
        with refused("database-read-only"), db.write() as connection:
            connection.execute(insert(hosts), host_row())
        db.close()
    common_place.chmod(0o755)


def test_a_full_disk_changes_nothing_and_room_mends_it(sqlite: Database) -> None:
    """SQLite's own error for a disk without room, by its limit of pages."""
    with sqlite.write() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with refused("database-full"), sqlite.write() as connection:
        connection.execute(insert(hosts), [host_row(f"{'x' * 200}{number}") for number in range(500)])
    assert names(sqlite) == []
    with sqlite.write() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
        connection.execute(insert(hosts), host_row())
    assert names(sqlite) == ["h"]


def test_a_damaged_file_and_one_that_is_something_else(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    file = tmp_path / "cantle.db"
    whole = file.read_bytes()
    file.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    with refused("database-corrupt"):
        Database.open(url)
    file.write_bytes(b"This is a letter, and a long one. " * 200)
    with refused("database-corrupt"):
        Database.open(url)


def test_another_process_that_holds_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_BUSY_MS", 10)
    db = Database.open(sqlite_url(tmp_path))
    with closing(sqlite3.connect(tmp_path / "cantle.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert names(db) == []
        with refused("database-busy"), db.write() as connection:
            connection.execute(insert(hosts), host_row())
    db.run(lambda connection: connection.execute(insert(hosts), host_row()))
    assert names(db) == ["h"]
    db.close()


# PostgreSQL and what can happen to it.


def test_a_server_that_goes_away_is_unavailable_and_back_again_by_itself(tmp_path: Path) -> None:
    from tests.databases import database  # noqa: PLC0415 - beside the one test of one kind

    with database("postgresql", tmp_path) as db:
        db.run(lambda connection: connection.execute(insert(hosts), host_row()))
        server = Postgres.shared()
        try:
            with refused("database-away"), db.write() as connection:
                connection.execute(update(hosts).values(generation=7))
                server.kill()
                connection.execute(update(hosts).values(generation=8))
            with refused("database-away"):
                names(db)
        finally:
            server.start()
        with db.read() as connection:
            assert connection.execute(select(hosts.c.generation)).scalars().all() == [1]


def test_a_database_that_refuses_us_while_we_run_is_waited_for_as_one_that_is_away() -> None:
    """While it was restored (dropped and made anew) or its password changed, servers and keepers ended with 78, which systemd takes for the
    last word."""
    server = Postgres.shared()
    url = server.new_database()
    migrate.upgrade(url)
    with closing(Database.open(url)) as db:
        names(db)
        with closing(psycopg.connect(server.url("postgres"), autocommit=True)) as connection:
            name = sql.Identifier(str(make_url(url).database))
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
        with refused("database-refused"):
            names(db)


def test_a_user_or_database_that_is_not_there() -> None:
    url = Postgres.shared().url("postgres")
    with refused("database-refused", BadConfig):
        Database.open(url.replace("/postgres?", "/absent?"))
    with refused("database-refused", BadConfig):
        Database.open(url.replace("//cantle@", "//nobody@"))
    with refused("database-not-migrated"):
        Database.open(url)


@pytest.mark.parametrize("way", ["read", "look"])
def test_who_reads_while_another_server_changes_the_tables_is_told_to_try_again(way: str) -> None:
    """A query that the database broke off for the change, as a deadlock or by its lock_timeout, was answered with 500 and ended keepers."""
    url = server_url("postgresql")
    with closing(Database.open(url)) as changing, closing(Database.open(url)) as db, changing.write() as connection:
        connection.exec_driver_sql("LOCK TABLE hosts IN ACCESS EXCLUSIVE MODE")
        with refused("database-contended"), getattr(db, way)() as reading:
            reading.exec_driver_sql("SET LOCAL lock_timeout = '1ms'")
            reading.execute(select(hosts.c.generation))


class _MySqlError(Exception):
    """What PyMySQL raises: number and text."""


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (1114, "database-full"),
        (1290, "database-read-only"),
        (1045, "database-refused"),
        (1049, "database-refused"),
        (1146, "database-not-migrated"),
        (2013, "database-away"),
        (1047, "database-away"),
    ],
)
def test_the_errors_of_mariadb_by_number(number: int, code: str) -> None:
    error = faults.translated(DBAPIError("SELECT", {}, _MySqlError(number, "text")), "me@db/cantle")
    assert error.code == code
    assert "me@db/cantle" in error.message


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (_MySqlError(2013, "text"), "does not answer"),
        (_MySqlError(1047, "WSREP has not yet prepared node"), "failed with error 1047; its own log"),
        (psycopg.errors.AdminShutdown("text"), "does not answer"),
        (psycopg.OperationalError("the connection is lost"), "does not answer"),
        (psycopg.errors.DivisionByZero("text"), "failed with SQLSTATE 22012; its own log"),
    ],
)
def test_a_failure_that_is_not_known_is_not_told_as_a_database_that_is_down(failure: Exception, said: str) -> None:
    """Ten minutes of somebody's search for a network fault."""
    told = faults.translated(DBAPIError("SELECT", {}, failure), "me@db/cantle")
    assert (told.code, said in told.message) == ("database-away", True)
    assert "text" not in told.message


@pytest.mark.parametrize("number", [1213, 1205, 1020])
def test_deadlocks_of_mariadb_are_done_again(number: int) -> None:
    assert faults.is_contention(DBAPIError("UPDATE", {}, _MySqlError(number, "text")))
    assert not faults.is_contention(DBAPIError("UPDATE", {}, _MySqlError(1045, "text")))


def test_two_binds_at_once_are_not_told_that_mariadb_is_away() -> None:
    """A deadlock over the next number of a row is told by this number."""
    assert faults.is_contention(DBAPIError("INSERT", {}, _MySqlError(1467, "Failed to read auto-increment value")))


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [
        ("mariadb://cantle:hidden@db/cantle", "pymysql", "cantle[mysql]"),
        ("postgresql://cantle:hidden@db/cantle", "psycopg", "cantle[postgresql]"),
    ],
)
def test_a_database_whose_driver_is_not_installed_says_what_to_install(
    url: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # Python's own way to say: there is no such module
    with pytest.raises(BadConfig) as refused:
        engines.reader(engines.parse(url))
    assert refused.value.code == "database-driver-missing"
    assert module in refused.value.message
    assert extra in refused.value.message
    assert "hidden" not in refused.value.message
