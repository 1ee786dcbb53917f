"""Statements that are sent by the driver itself: what they find and change is what SQLAlchemy's own execute would."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Connection,
    Double,
    Integer,
    MetaData,
    Table,
    bindparam,
    cast,
    delete,
    insert,
    or_,
    select,
    update,
)
from tests.databases import database

from cantle.errors import BadRequest, Unavailable
from cantle.store.database import Database
from cantle.store.prepared import KEPT, LONGEST, Prepared
from cantle.store.tables import hosts, instance_owners
from cantle.store.types import database_now

MOMENT = dt.datetime(2026, 11, 30, 10, 38, 33, 123456, tzinfo=dt.UTC)

_NAMED = (
    select(
        hosts,
        (hosts.c.last_seen > database_now(bindparam("ago"))).label("up"),
        (cast(hosts.c.generation, Double) / 2).label("half"),
    )
    .where(or_(hosts.c.hostname.in_(bindparam("names", expanding=True)), hosts.c.generation == 7))
    .order_by(hosts.c.hostname)
)
NAMED = Prepared(_NAMED, lists=("names",))
RAISE = Prepared(
    update(hosts)
    .where(hosts.c.hostname == bindparam("name"))
    .values(generation=hosts.c.generation + bindparam("by"), problems=bindparam("said"), last_seen=bindparam("at"))
)
FORGET = Prepared(delete(hosts).where(hosts.c.hostname.in_(bindparam("names", expanding=True))), lists=("names",))


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[Database]:
    """An empty, migrated PostgreSQL database."""
    with database("postgresql", tmp_path) as opened:
        yield opened


@pytest.fixture
def four(db: Database) -> Database:
    """A database with the hosts a, b, c and d."""
    with db.write() as connection:
        connection.execute(insert(hosts), [_host(name, number) for number, name in enumerate("abcd")])
    return db


def _host(name: str, number: int) -> dict[str, Any]:
    return {
        "hostname": name,
        "generation": number,
        "former_starts": (name, "é"),
        "problems": (),
        "created_at": MOMENT,
        "last_seen": MOMENT if number else None,
    }


@pytest.mark.parametrize("names", [[], ["a"], ["c", "a"], ["a", "b", "nobody"], [f"h{n}" for n in range(150)] + ["d"]])
def test_the_rows_are_those_of_sqlalchemy_for_lists_of_every_length(four: Database, names: list[str]) -> None:
    given = {"names": names, "ago": -1e9}
    with four.read() as connection:
        assert NAMED.all(connection, given) == [tuple(row) for row in connection.execute(_NAMED, given)]


def test_values_come_back_in_the_types_of_their_columns(four: Database) -> None:
    with four.read() as connection:
        row = NAMED.first(connection, {"names": ["b"], "ago": -1e9})
        assert NAMED.first(connection, {"names": ["nobody"], "ago": 0.0}) is None
    assert (row.hostname, row.generation, row.former_starts, row.created_at) == ("b", 1, ("b", "é"), MOMENT)
    assert row.half == 0.5
    assert row.agent_start is None


def test_changes_are_counted_whether_one_or_many_are_sent(four: Database) -> None:
    with four.write() as connection:
        assert RAISE.change(connection, _raise("a", 7)) == 1
        assert RAISE.change(connection, _raise("b", 6), _raise("nobody", 1), _raise("c", 1)) == 2
    with four.read() as connection:
        found = {row.hostname: row for row in NAMED.all(connection, {"names": ["c"], "ago": 0.0})}
    assert {name: row.generation for name, row in found.items()} == {"a": 7, "b": 7, "c": 3}
    assert found["a"].problems == (("x", "y", "z"),)
    with four.write() as connection:
        assert FORGET.change(connection, {"names": ["a", "d"]}) == 2
        assert FORGET.change(connection, {"names": []}) == 0
        assert FORGET.change(connection, {"names": ["b", *(f"h{n}" for n in range(150))]}) == 1


def _raise(name: str, by: int) -> dict[str, Any]:
    return {"name": name, "by": by, "said": (("x", "y", "z"),), "at": MOMENT}


def test_a_caller_who_names_ever_more_things_takes_no_memory(sqlite: Database) -> None:
    find = Prepared(_NAMED, lists=("names",))
    with sqlite.read() as connection:
        for count in range(300):
            find.all(connection, {"names": ["x"] * count, "ago": 0.0})
    assert len(find._plans) == LONGEST + 1  # of none to the longest that is kept


def test_a_caller_who_mixes_ever_other_numbers_of_things_takes_no_memory(sqlite: Database) -> None:
    either = or_(*(hosts.c.hostname.in_(bindparam(name, expanding=True)) for name in ("these", "those")))
    find = Prepared(select(hosts).where(either), lists=("these", "those"))
    with sqlite.read() as connection:
        for count in range(2 * KEPT):
            find.all(connection, {"these": ["x"] * (count // 20), "those": ["y"] * (count % 20)})
    assert len(find._plans) <= KEPT


def test_each_is_one_statement_to_those_who_count(four: Database) -> None:
    with four.statements() as sent, four.write() as connection:
        RAISE.change(connection, _raise("a", 1), _raise("b", 1))
        NAMED.all(connection, {"names": ["a"], "ago": 0.0})
    assert [words.split()[0] for words in sent] == ["UPDATE", "SELECT"]


def test_a_value_that_cannot_be_kept_is_the_callers_mistake(db: Database) -> None:
    with pytest.raises(BadRequest, match="cannot be kept"), db.read() as connection:
        NAMED.all(connection, {"names": ["half \ud800"], "ago": 0.0})


def test_what_a_reading_transaction_may_not_change_is_refused_with_a_code(four: Database) -> None:
    with pytest.raises(Unavailable) as refused, four.read() as connection:
        RAISE.change(connection, _raise("a", 1))
    assert refused.value.code == "database-read-only"


def test_somebody_who_was_quicker_makes_the_whole_work_be_done_again(postgres: Database) -> None:
    add = Prepared(
        insert(instance_owners).values(
            instance_uuid=bindparam("instance"), project_id=bindparam("project"), seen_at=database_now()
        )
    )
    tries: list[int] = []

    def work(connection: Connection) -> None:
        tries.append(len(tries))
        add.change(connection, {"instance": f"i{tries[-1]}", "project": "p"})
        if tries[-1] < 2:
            add.change(connection, {"instance": f"i{tries[-1]}", "project": "p"})

    postgres.run(work)
    assert tries == [0, 1, 2]


def test_postgresql_keeps_its_plan_of_a_statement_that_is_read_again_and_again(postgres: Database) -> None:
    for _ in range(8):  # the driver has it prepared at the sixth time
        with postgres.read() as connection:
            NAMED.all(connection, {"names": ["a"], "ago": 0.0})
    with postgres.read() as connection:
        kept = connection.exec_driver_sql("SELECT statement FROM pg_prepared_statements").scalars().all()
    assert any("hosts.hostname IN" in statement for statement in kept)


def test_after_a_change_of_the_schema_a_read_fails_once_and_says_that_it_may_be_tried_again(postgres: Database) -> None:
    odd = Table("odd", MetaData(), Column("number", Integer))
    find = Prepared(select(odd))
    with postgres.write() as connection:
        odd.create(connection)
    try:
        _often(postgres, find)
        with postgres.write() as connection:
            connection.exec_driver_sql("ALTER TABLE odd ALTER COLUMN number TYPE bigint")
        with pytest.raises(Unavailable) as lost, postgres.read() as connection:
            find.all(connection, {})
        assert lost.value.code == "database-statement-lost"
        with postgres.read() as connection:
            assert find.all(connection, {}) == []
    finally:
        with postgres.write() as connection:
            odd.drop(connection)


def test_behind_a_pooler_that_loses_statements_the_schema_is_not_blamed(postgres: Database) -> None:
    _often(postgres, NAMED)

    def look_on_another_connection_of_the_poolers(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        driver.pgconn.exec_(b"DEALLOCATE ALL")  # unseen by the driver
        NAMED.all(connection, {"names": ["a"], "ago": 0.0})

    with pytest.raises(Unavailable) as lost, postgres.read() as connection:
        look_on_another_connection_of_the_poolers(connection)
    assert lost.value.code == "database-statement-lost"


def _often(db: Database, statement: Prepared) -> None:
    """Read it so often that the driver has it prepared."""
    for _ in range(8):
        with db.read() as connection:
            statement.all(connection, {"names": ["a"], "ago": 0.0})


def test_a_connection_that_broke_is_not_used_again(postgres: Database) -> None:
    def look_on_a_connection_that_is_ended(connection: Connection) -> None:
        number = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        with postgres.write() as other:
            other.exec_driver_sql(f"SELECT pg_terminate_backend({number})")
        NAMED.all(connection, {"names": ["a"], "ago": 0.0})

    with pytest.raises(Unavailable) as away, postgres.read() as connection:
        look_on_a_connection_that_is_ended(connection)
    assert away.value.code == "database-away"
    with postgres.read() as connection:
        assert NAMED.all(connection, {"names": ["a"], "ago": 0.0}) == []
