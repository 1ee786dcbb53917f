"""Connections that are kept, and queries that are a transaction by themselves."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import Connection, bindparam, create_engine, event, insert, select, text, update
from tests.databases import server_url

from cantle.errors import Unavailable
from cantle.store import engines, pool
from cantle.store.database import Database
from cantle.store.prepared import Prepared
from cantle.store.tables import hosts

GENERATION = Prepared(select(hosts.c.generation).where(hosts.c.hostname == bindparam("named")))
RAISE = Prepared(update(hosts).where(hosts.c.hostname == "h").values(generation=hosts.c.generation + 1))

#: Finds the other connections to the same database, and ends one of them.
OTHERS = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()",
}
END = {"postgresql": "SELECT pg_terminate_backend(:number, 5000)", "mysql": "KILL CONNECTION :number"}


def end_all_others(kind: str) -> int:
    """What a restart of the database does to those who are connected; how many were."""
    engine = create_engine(engines.parse(server_url(kind)), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        numbers = connection.execute(text(OTHERS[engine.dialect.name])).scalars().all()
        for number in numbers:
            connection.execute(text(END[engine.dialect.name]), {"number": number})
    engine.dispose()
    return len(numbers)


@pytest.fixture
def host(db: Database) -> Database:
    """A database with the host ``h`` of generation 1."""
    row = {"hostname": "h", "generation": 1, "former_starts": (), "problems": (), "created_at": dt.datetime.now(dt.UTC)}
    db.run(lambda connection: connection.execute(insert(hosts), row))
    return db


def generation(db: Database) -> int:
    """Of the host, by a query that is a transaction by itself."""
    with db.look() as connection:
        found: int = GENERATION.first(connection, {"named": "h"}).generation
    return found


@pytest.mark.parametrize("trusted_s", [pool.TRUSTED_S, 0.0])
def test_after_a_restart_of_the_database_nobody_gets_a_dead_connection(
    host: Database, trusted_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it lay idle for long and is asked, or was used just now and has something to say."""
    if host.dialect == "sqlite":
        assert generation(host) == 1  # nothing that could go away
        return
    host.run(lambda connection: RAISE.change(connection, {}))
    assert generation(host) == 2
    monkeypatch.setattr(pool, "TRUSTED_S", trusted_s)
    assert end_all_others(host.dialect) >= 2
    assert generation(host) == 2
    host.run(lambda connection: RAISE.change(connection, {}))
    assert _read(host) == 3


def test_a_query_that_is_a_transaction_by_itself_begins_none_and_sees_what_was_committed_before_it(
    host: Database,
) -> None:
    with host.look() as connection:
        assert GENERATION.first(connection, {"named": "h"}).generation == 1
        assert not connection.in_transaction()
        host.run(lambda writing: RAISE.change(writing, {}))
        assert GENERATION.first(connection, {"named": "h"}).generation == 2


def test_nothing_is_written_where_no_commit_will_follow(host: Database) -> None:
    with host.look() as connection, pytest.raises(AssertionError):
        RAISE.change(connection, {})
    with (
        pytest.raises(Unavailable, match=r"takes no writes|cannot be written"),
        host.look() as connection,
    ):
        connection.execute(update(hosts).values(generation=9))
    assert generation(host) == 1


def test_a_connection_comes_back_without_the_transaction_that_failed(host: Database) -> None:
    """Nobody rolls back after it was given back: who had it did."""

    def fail(connection: Connection) -> None:
        RAISE.change(connection, {})
        raise ZeroDivisionError

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            host.run(fail)
    assert generation(host) == 1
    host.run(lambda connection: RAISE.change(connection, {}))
    assert generation(host) == 2


def test_a_transaction_whose_commit_failed_is_not_left_open_for_the_next(host: Database) -> None:
    """Every transaction after it failed, on a disk that was full for a moment: found by the crash matrix."""

    def fail(_connection: Connection) -> None:
        raise Unavailable("database-full", "No room.")

    for engine in (host._reader, host._writer):
        event.listen(engine, "commit", fail)
    for _ in range(3):
        with pytest.raises(Unavailable):
            host.run(lambda connection: RAISE.change(connection, {}))
        with pytest.raises(Unavailable):
            _read(host)
    for engine in (host._reader, host._writer):
        event.remove(engine, "commit", fail)
    assert generation(host) == 1
    host.run(lambda connection: RAISE.change(connection, {}))
    assert _read(host) == 2


def _read(db: Database) -> int:
    """The generation, in a transaction."""
    with db.read() as connection:
        found: int = connection.execute(select(hosts.c.generation)).scalar_one()
    return found
