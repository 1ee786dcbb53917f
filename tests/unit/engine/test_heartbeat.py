"""Signs of life: few statements for many hosts, and no host is down that speaks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from sqlalchemy import select, update
from tests.databases import database
from tests.unit.engine.cloud import Host, t4

from cantle.engine import heartbeat
from cantle.engine.host import list_hosts
from cantle.engine.work import wait_work
from cantle.errors import Unavailable
from cantle.store import host as store
from cantle.store.database import Database
from cantle.store.tables import hosts
from cantle.store.types import Record, database_now


@pytest.fixture
def crowd(db: Database, monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Ten hosts that were heard of two minutes ago, none of them by this process."""
    for number in range(10):
        Host(db, f"c{number}").report(t4(1, host=f"c{number}"))
    rewind(db, 120)
    monkeypatch.setattr(heartbeat, "_signs", {})
    return rows(db)


def rewind(db: Database, seconds: float) -> None:
    """Let so much time pass since every host was heard from."""
    with db.write() as connection:
        connection.execute(update(hosts).values(last_seen=database_now(-seconds)))


def rows(db: Database) -> list[Record]:
    """Every host's row."""
    with db.read() as connection:
        names = connection.execute(select(hosts.c.hostname).order_by(hosts.c.id)).scalars().all()
        found = [store.find(connection, name) for name in names]
    return [row for row in found if row is not None]


def silent(db: Database) -> list[str]:
    """Hosts of which nothing was written just now."""
    return [row.hostname for row in rows(db) if (row.now - row.last_seen).total_seconds() > 60]


def test_those_who_come_in_one_second_are_written_together_by_the_first(
    db: Database, crowd: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "TOGETHER_S", 3600.0)  # a second may be over before the others have come
    with db.statements() as sent:
        with heartbeat.heard(db, crowd[0]) as first:
            assert 0 < first.left <= heartbeat.TOGETHER_S
            for row in crowd[1:]:
                with heartbeat.heard(db, row) as other:
                    assert other.left == float("inf")
            assert sent == []
        assert len(sent) == 1
    assert silent(db) == []


def test_a_batch_is_written_while_its_opener_waits(
    db: Database, crowd: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "TOGETHER_S", 0.01)
    with heartbeat.heard(db, crowd[0]) as batch:
        end = time.monotonic() + 20
        while not batch.write_if_due() and time.monotonic() < end:
            time.sleep(batch.left)
        assert "c0" not in silent(db)
        with heartbeat.heard(db, crowd[1]) as second:
            assert second.left <= 0.01, "who comes later opens the next"


def test_whoever_only_asks_is_written_when_he_is_answered(db: Database, crowd: list[Record]) -> None:
    wait_work(db, "c3", crowd[3].generation, 0)
    assert "c3" not in silent(db)


def test_a_host_that_speaks_every_minute_is_written_once_a_minute(db: Database, crowd: list[Record]) -> None:
    wait_work(db, "c0", -1, 0)
    with db.statements() as sent:
        wait_work(db, "c0", -1, 0)
    assert [statement for statement in sent if statement.lstrip().startswith("UPDATE")] == []


def test_a_host_that_was_taken_for_down_is_up_with_its_first_word(db: Database) -> None:
    """Whether it reports or asks for work, and however lately this process wrote of it."""
    host = Host(db)
    host.report(t4())
    for speak in (host.report, lambda: wait_work(db, "compute-1", -1, 0)):
        rewind(db, 400)
        assert not list_hosts(db)[0].up
        speak()
        assert list_hosts(db)[0].up


def test_a_report_that_is_known_writes_a_sign_of_life_only_where_the_last_is_a_minute_old(db: Database) -> None:
    host = Host(db)
    host.report(t4())
    for seconds, statements in ((30, 1), (90, 2)):
        rewind(db, seconds)
        with db.statements() as sent:
            host.report()
        assert len(sent) == statements


@pytest.mark.parametrize("away_at", ["seen_if_free", "seen_late"])
def test_what_the_database_did_not_take_is_due_again(
    db: Database, crowd: list[Record], monkeypatch: pytest.MonkeyPatch, away_at: str
) -> None:
    with monkeypatch.context() as broken:

        def away(*_: object) -> int:
            raise Unavailable("database-away", "it is not there")

        broken.setattr(store, "seen_if_free", lambda *_: 0)  # somebody has all of them locked
        broken.setattr(store, away_at, away)
        with pytest.raises(Unavailable), heartbeat.heard(db, crowd[0]), heartbeat.heard(db, crowd[1]):
            pass
    for row in crowd[:2]:
        with heartbeat.heard(db, row):
            pass
    assert silent(db) == [row.hostname for row in crowd[2:]]


def test_a_host_on_which_something_is_going_on_keeps_no_other_waiting(tmp_path: Path) -> None:
    """A bind holds its host's row; the signs of life of all others are written meanwhile, and its own after it."""
    with database("postgresql", tmp_path) as db:
        for number in range(3):
            Host(db, f"c{number}").report(t4(1, host=f"c{number}"))
        rewind(db, 120)
        ids = [row.id for row in rows(db)]
        with db.write() as binding:
            store.find(binding, "c1", lock=True)
            assert db.run(lambda connection: store.seen_if_free(connection, ids)) == 2
            assert silent(db) == ["c1"]
        db.run(lambda connection: store.seen_late(connection, ids))
        assert silent(db) == []
