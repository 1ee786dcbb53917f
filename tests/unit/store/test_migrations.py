"""The migrations make exactly the schema that the code uses."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect
from tests.databases import KINDS, server_url, sqlite_url
from tests.postgres import Postgres

from cantle.errors import BadConfig, Unavailable
from cantle.store import migrate
from cantle.store.database import Database
from cantle.store.revision import HEAD
from cantle.store.schema import metadata
from cantle.store.upgrade import upgrade_in_child


def test_the_migrated_schema_is_the_one_in_the_tables_module(db: Database) -> None:
    with db.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_every_constraint_and_index_has_the_name_of_the_convention(db: Database) -> None:
    with db.read() as connection:
        looking = inspect(connection)
        for table in metadata.sorted_tables:
            foreign = {key["name"] for key in looking.get_foreign_keys(table.name)}
            assert foreign == {constraint.name for constraint in table.foreign_key_constraints}
            found = {
                one["name"]
                for one in looking.get_indexes(table.name)
                if not one["unique"] or (one["name"] or "").startswith("ix_")
            }
            # MariaDB makes an index for each foreign key that has none, under the key's name.
            assert found - foreign == {index.name for index in table.indexes}


def test_the_revision_the_server_checks_for_is_the_newest_migration() -> None:
    assert migrate.head() == HEAD


def test_migrating_again_changes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a b.db'}"
    assert migrate.current(url) is None
    migrate.upgrade(url)
    migrate.upgrade(url)
    assert migrate.current(url) == HEAD


@pytest.mark.parametrize(
    "content",
    [
        "CREATE TABLE moz_places (id INTEGER)",
        "CREATE TABLE hosts (id INTEGER)",
        "CREATE TABLE alembic_version (version_num TEXT); INSERT INTO alembic_version VALUES ('1975ea83b712')",
    ],
)
def test_another_programs_database_is_refused_with_the_reason_and_left_as_it_was(tmp_path: Path, content: str) -> None:
    """It said SQLITE_ERROR, or added our tables."""
    file = tmp_path / "places.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as theirs:
        theirs.executescript(content)
        before = list(theirs.iterdump())
    with pytest.raises(BadConfig, match="another program's") as caught:
        migrate.upgrade(f"sqlite:///{file}")
    assert caught.value.code == "database-foreign"
    with contextlib.closing(sqlite3.connect(file)) as theirs:
        assert list(theirs.iterdump()) == before


def test_a_migration_that_dies_half_way_leaves_an_empty_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'cantle.db'}"
    copy = tmp_path / "migrations"
    shutil.copytree(Path(migrate.__file__).parent / "migrations", copy, ignore=shutil.ignore_patterns("__pycache__"))
    (step,) = (copy / "versions").glob("r0001_*.py")
    step.write_text(step.read_text() + "    raise RuntimeError('power cut')\n")
    monkeypatch.setattr(migrate, "_directory", lambda: copy)
    with pytest.raises(RuntimeError, match="power cut"):
        migrate.upgrade(url)
    db = Database.open(url, check=False)
    with db.read() as connection:
        assert inspect(connection).get_table_names() == []
    db.close()


def test_a_child_process_migrates_and_the_url_is_not_on_its_command_line(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'cantle.db'}"
    held_back = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    upgrade_in_child(url)
    Database.open(url).close()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == held_back, "or no signal would stop the server"


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_starts_again_makes_no_child(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = sqlite_url(tmp_path) if kind == "sqlite" else server_url(kind)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    upgrade_in_child(url)
    with pytest.raises(FileNotFoundError):
        upgrade_in_child(f"sqlite:///{tmp_path / 'new.db'}")


def test_a_child_migrates_an_empty_database_of_a_server() -> None:
    url = Postgres.shared().new_database()
    upgrade_in_child(url)
    Database.open(url).close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_processes_does_not_break_the_migration_off(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C within the child's first moment ended "cantle serve" with 69 and "exit status -2"; systemd's stop did at any moment."""
    file = tmp_path / "cantle.db"
    with contextlib.closing(sqlite3.connect(file)) as other, ThreadPoolExecutor(1) as pool:
        other.execute("PRAGMA journal_mode = wal")
        other.execute("BEGIN IMMEDIATE")  # the child waits for it
        parent = pool.submit(threading.get_native_id).result()
        upgrading = pool.submit(upgrade_in_child, f"sqlite:///{file}")
        while not (children := Path(f"/proc/self/task/{parent}/children").read_text().split()):
            assert not upgrading.done()
        os.kill(int(children[0]), number)
        other.rollback()
        upgrading.result()
    Database.open(f"sqlite:///{file}").close()


def test_the_child_reports_its_failure_with_its_code(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        upgrade_in_child(f"sqlite:///{tmp_path / 'absent' / 'cantle.db'}")
    assert caught.value.code == "database-cannot-open"
    assert str(tmp_path / "absent") in caught.value.message
    with pytest.raises(BadConfig) as refused:
        upgrade_in_child("oracle://somewhere")
    assert refused.value.code == "bad-database-url"


def test_another_programs_database_ends_a_server_as_wrong_configuration_that_is_not_tried_again(tmp_path: Path) -> None:
    """It ended with 69, and systemd started it again and again."""
    file = tmp_path / "places.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as theirs:
        theirs.execute("CREATE TABLE moz_places (id INTEGER)")
    with pytest.raises(BadConfig, match="another program's") as caught:
        upgrade_in_child(f"sqlite:///{file}")
    assert caught.value.code == "database-foreign"


def test_the_command_says_how_it_is_used() -> None:
    done = subprocess.run([sys.executable, "-m", "cantle.store.migrate"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_a_server_neither_starts_on_an_empty_database_nor_on_one_from_the_future(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'cantle.db'}"
    with pytest.raises(Unavailable) as empty:
        Database.open(url)
    assert empty.value.code == "database-not-migrated"
    migrate.upgrade(url)
    db = Database.open(url)
    with db.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    db.close()
    with pytest.raises(Unavailable) as newer:
        Database.open(url)
    assert newer.value.code == "database-too-new"
    with pytest.raises(Unavailable) as migrating:  # as "cantle serve" does first
        upgrade_in_child(url)
    assert (migrating.value.code, migrating.value.message) == (newer.value.code, newer.value.message)
