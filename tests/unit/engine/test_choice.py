"""Hosts are found by what they are thought to have free, few are looked at, and one that is busy is passed over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import select, text, update
from tests.databases import database
from tests.unit.engine.cloud import ALICE, Host, make_profile, t4, whole
from tests.unit.keeper.conftest import until

from cantle.engine import choice
from cantle.engine.force import force_release
from cantle.engine.lease import create_lease, release_lease
from cantle.engine.move import move_lease
from cantle.model.alias import NO_ALIASES
from cantle.store import host as host_store
from cantle.store import stock
from cantle.store.database import Database
from cantle.store.kind_tables import stocks
from cantle.store.tables import deployables, hosts
from cantle.store.types import database_now


def test_of_many_hosts_whose_cards_fail_few_are_looked_at(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "PAGE", 1)
    for number in range(choice.TRIES + 2):
        Host(db, f"h{number}").report(whole(host=f"h{number}"))
    make_profile(db, "card", [{"resources:PGPU": "1"}])
    with db.write() as connection:
        connection.execute(update(deployables).values(failed_at=database_now()))
    with db.read() as connection:
        asked = choice.by_name(connection, "card", 1, NO_ALIASES)
        with db.statements() as sent:
            found = choice.find(connection, asked)
    assert found is not None
    assert len(sent) == 4, "one host, then four; not all of them, page after page"


def test_what_a_host_has_free_is_known_right_after_a_lease_its_move_and_each_end(db: Database) -> None:
    for name in ("h1", "h2"):
        Host(db, name).report(t4(2, host=name))
    make_profile(db)
    lease = create_lease(db, ALICE, profile_name="vgpu", hostname="h1")
    assert db.run(stock.refresh_wrong) == 0
    move_lease(db, ALICE, lease.uuid, to="h2", stopped=True, aliases=NO_ALIASES)
    assert db.run(stock.refresh_wrong) == 0
    release_lease(db, ALICE, lease.uuid)
    assert db.run(stock.refresh_wrong) == 0
    force_release(db, ALICE, lease.uuid, "both scrapped")
    assert db.run(stock.refresh_wrong) == 0


def test_a_host_that_is_thought_to_have_nothing_free_and_has_is_found_all_the_same(db: Database) -> None:
    Host(db).report(t4(2))
    make_profile(db)
    with db.write() as connection:
        connection.execute(update(stocks).values(free=0))
    assert create_lease(db, ALICE, profile_name="vgpu").hostname == "compute-1"
    assert db.run(stock.refresh_wrong) == 0, "mended"


@contextmanager
def busy(db: Database, *names: str) -> Iterator[dict[str, threading.Event]]:
    """Somebody has each of these hosts locked until its event is set."""
    free = {name: threading.Event() for name in names}
    locked = threading.Barrier(len(names) + 1)

    def lock(name: str) -> None:
        with db.write() as connection:
            number = connection.execute(select(hosts.c.id).where(hosts.c.hostname == name)).scalar_one()
            host_store.lock(connection, [number])
            locked.wait(30)
            free[name].wait(30)

    with ThreadPoolExecutor(len(names)) as others:
        locking = [others.submit(lock, name) for name in names]
        locked.wait(30)
        yield free
        for one in free.values():
            one.set()
        for done in locking:
            done.result()


def two_hosts(db: Database) -> str:
    """Two that would do; the better one's name."""
    for number in range(2):
        Host(db, f"h{number}").report(t4(2, host=f"h{number}"))
    make_profile(db)
    with db.read() as connection:
        best = choice.find(connection, choice.by_name(connection, "vgpu", 1, NO_ALIASES))
    assert best is not None
    return best.hostname


def test_a_busy_host_is_passed_over_for_one_that_is_not() -> None:
    with database("postgresql", Path()) as db:
        best = two_hosts(db)
        with busy(db, best):
            assert create_lease(db, ALICE, profile_name="vgpu").hostname != best


@pytest.mark.parametrize("enough", [1, 2])
def test_who_finds_enough_hosts_busy_waits_for_the_best_one(enough: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "TRIES", enough)
    with database("postgresql", Path()) as db, ThreadPoolExecutor(1) as somebody:
        best = two_hosts(db)
        with busy(db, *(["h0", "h1"] if enough == 2 else [best])) as free:
            lease = somebody.submit(create_lease, db, ALICE, profile_name="vgpu")
            until(lambda: _waits(db))
            free[best].set()
            assert lease.result(30).hostname == best


def _waits(db: Database) -> bool:
    """Whether somebody waits for a lock in this PostgreSQL."""
    with db.look() as connection:
        return connection.execute(text("SELECT 1 FROM pg_locks WHERE NOT granted")).first() is not None
