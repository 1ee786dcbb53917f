"""Transactions under load: what is promised about them."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError
from tests.databases import sqlite_url
from tests.unit.store.database_rows import host_row, names, refused

from cantle.errors import CantleError
from cantle.store.database import Database, wake
from cantle.store.faults import LookAgain
from cantle.store.tables import hosts
from cantle.store.types import database_now


def await_ears(db: Database) -> None:
    """Whoever starts to hear other processes rings everybody once: let that be over."""
    tick = threading.Event()
    for _ in range(2000):
        if db.dialect == "sqlite" or db.wakeups.covered:
            return
        tick.wait(0.01)
    raise AssertionError("nothing is heard")


def test_what_raises_is_rolled_back_and_wakes_nobody(db: Database) -> None:
    def work(connection):  # type: ignore[no-untyped-def]
        connection.execute(insert(hosts), host_row())
        wake(connection, "host/h")
        raise KeyError("x")

    with db.wakeups.waiter("something else"):
        await_ears(db)
    with db.wakeups.waiter("host/h") as waiter:
        with pytest.raises(KeyError):
            db.run(work)
        assert not waiter.wait(0)
        with db.write() as connection:
            connection.execute(insert(hosts), host_row())
            wake(connection, "host/h")
            assert not waiter.wait(0)
        assert waiter.wait(0)
    assert names(db) == ["h"]


def test_a_hint_between_looking_and_waiting_is_kept(db: Database) -> None:
    with db.wakeups.waiter("a") as waiter, db.wakeups.waiter("b") as other:
        db.wakeups.signal(["a", "nobody waits for this"])
        assert waiter.wait(60)
        assert not waiter.wait(0)
        assert not other.wait(0)


def test_reading_transactions_cannot_write(db: Database) -> None:
    with pytest.raises(CantleError) as caught, db.read() as connection:
        connection.execute(insert(hosts), host_row())
    assert caught.value.code == "database-read-only"
    assert names(db) == []


def test_a_reading_transaction_sees_one_moment_and_does_not_wait_for_a_writer(db: Database) -> None:
    with db.write() as writing:
        writing.execute(insert(hosts), host_row("a"))
        assert names(db) == []
    with db.read() as reading:
        query = select(hosts.c.hostname)
        assert reading.execute(query).scalars().all() == ["a"]
        with db.write() as writing:
            writing.execute(insert(hosts), host_row("b"))
        assert reading.execute(query).scalars().all() == ["a"]
    assert names(db) == ["a", "b"]


def test_look_again_does_the_work_again_from_the_start(db: Database) -> None:
    tries: list[int] = []

    def work(connection):  # type: ignore[no-untyped-def]
        connection.execute(insert(hosts), host_row())
        tries.append(1)
        if len(tries) < 3:
            raise LookAgain
        return "done"

    assert db.run(work) == "done"
    assert names(db) == ["h"]


def test_looking_again_for_ever_ends_with_a_clear_error(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cantle.store.database._TRIES", 3)

    def work(_connection: object) -> None:
        raise LookAgain

    with refused("database-contended"):
        db.run(work)


def test_our_own_mistake_is_not_tried_for_ever(sqlite: Database) -> None:
    tries: list[int] = []

    def work(connection):  # type: ignore[no-untyped-def]
        tries.append(1)
        connection.execute(insert(hosts), [host_row("x"), host_row("x")])

    with pytest.raises(IntegrityError):
        sqlite.run(work)
    assert len(tries) == 1


def test_two_transactions_that_lock_each_other_out_both_come_through(tmp_path: Path) -> None:
    """A deadlock: PostgreSQL gives one up, `run` does it again."""
    from tests.databases import database  # noqa: PLC0415 - beside the one test of one kind

    with database("postgresql", tmp_path) as db:
        with db.write() as connection:
            connection.execute(insert(hosts), [host_row("a"), host_row("b")])
        met = threading.Barrier(2)
        first_tries = {"ab": True, "ba": True}

        def touch(order: str) -> None:
            def work(connection):  # type: ignore[no-untyped-def]
                for position, name in enumerate(order):
                    connection.execute(
                        update(hosts).where(hosts.c.hostname == name).values(generation=hosts.c.generation + 1)
                    )
                    if position == 0 and first_tries[order]:
                        first_tries[order] = False
                        met.wait(30)

            db.run(work)

        threads = [threading.Thread(target=touch, args=(order,)) for order in ("ab", "ba")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        with db.read() as connection:
            assert connection.execute(select(hosts.c.generation)).scalars().all() == [3, 3]


def test_times_come_back_as_they_were_to_the_microsecond_and_in_utc(db: Database) -> None:
    moment = dt.datetime(2026, 11, 30, 23, 59, 59, 999_999, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30)))
    with db.write() as connection:
        connection.execute(insert(hosts), host_row(last_seen=moment))
        found = connection.execute(select(hosts.c.last_seen)).scalar_one()
    assert found == moment
    assert found.tzinfo is dt.UTC


def test_the_databases_clock_compares_with_kept_times(db: Database) -> None:
    with db.write() as connection:
        connection.execute(insert(hosts), host_row())
        connection.execute(update(hosts).values(last_seen=database_now(-100)))
        for seconds, older in ((-99, True), (-101, False), (-99.5, True), (-100.5, False)):
            assert connection.execute(select(hosts.c.last_seen < database_now(seconds))).scalar_one() == older
        assert abs(connection.execute(select(database_now())).scalar_one() - dt.datetime.now(dt.UTC)) < dt.timedelta(
            minutes=1
        )


def test_closing_lets_those_who_wait_go(tmp_path: Path) -> None:
    db = Database.open(sqlite_url(tmp_path))
    with db.wakeups.waiter("x") as waiter:
        db.close()
        assert waiter.wait(60)
        assert db.wakeups.stopped


def test_a_look_of_another_thread_is_not_counted_among_the_statements_of_a_test(db: Database) -> None:
    """Whoever listens for all who wait looks at the hosts every few seconds: a count was one too high then."""

    def look() -> None:
        with db.look() as connection:
            connection.execute(select(hosts.c.generation)).all()

    other = threading.Thread(target=look)
    with db.statements() as sent:
        look()
        other.start()
        other.join()
    look()
    assert len(sent) == 1
