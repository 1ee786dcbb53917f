"""Waiting for work."""

from __future__ import annotations

import threading
from uuid import uuid4

import pytest
from tests.unit.engine.cloud import ALICE, NOVA_FOR_ALICE, Host, capacity_of, make_profile, t4

from cantle.engine.arq import create_arqs
from cantle.engine.bind import Bind, bind
from cantle.engine.lease import create_lease
from cantle.engine.work import current_work, wait_work
from cantle.errors import NotFound
from cantle.store import deployable, provider_pool, wakeups
from cantle.store.database import Database
from cantle.wire.work import Work


@pytest.fixture
def host(db: Database) -> Host:
    """A host with four vGPUs, and a profile for them."""
    one = Host(db)
    one.report(t4(4))
    make_profile(db, "vgpu")
    return one


def test_a_parked_agent_is_woken_by_a_claim(db: Database, host: Host) -> None:
    generation = current_work(db, "compute-1").generation
    found: list[Work] = []
    waiting = threading.Thread(target=lambda: found.append(wait_work(db, "compute-1", generation, 60)))
    waiting.start()
    create_lease(db, ALICE, profile_name="vgpu")
    waiting.join(30)
    assert [len(work.wanted) for work in found] == [1]


def test_an_agent_that_lags_behind_is_answered_at_once(db: Database, host: Host) -> None:
    assert wait_work(db, "compute-1", 0, 60) == current_work(db, "compute-1")


def test_nothing_new_is_said_when_the_time_is_over(db: Database, host: Host) -> None:
    work = current_work(db, "compute-1")
    assert wait_work(db, "compute-1", work.generation, 0.01) == work


def test_a_wake_up_that_was_lost_is_made_good_by_looking_again(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody rings here. On servers one looks for all who wait: see the tests of ears."""
    Host(sqlite).report(t4(4))
    make_profile(sqlite, "vgpu")
    monkeypatch.setattr(sqlite.wakeups, "signal", lambda _topics: None)
    monkeypatch.setattr(wakeups, "COVERED_HOSTS_S", 0.01)
    generation = current_work(sqlite, "compute-1").generation
    found: list[Work] = []
    waiting = threading.Thread(target=lambda: found.append(wait_work(sqlite, "compute-1", generation, 60)))
    waiting.start()
    create_lease(sqlite, ALICE, profile_name="vgpu")
    waiting.join(30)
    assert [len(work.wanted) for work in found] == [1]


def test_a_change_that_is_rolled_back_wakes_nobody(db: Database, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[str] = []
    monkeypatch.setattr(db.wakeups, "signal", rung.extend)
    monkeypatch.setattr("cantle.store.claim.take", lambda *_: (_ for _ in ()).throw(KeyError("power cut")))
    with pytest.raises(KeyError):
        create_lease(db, ALICE, profile_name="vgpu")
    assert rung == []


def test_those_who_wait_are_let_go_when_the_server_stops(sqlite: Database) -> None:
    host = Host(sqlite)
    host.report(t4(1))
    generation = current_work(sqlite, "compute-1").generation
    found: list[Work] = []
    waiting = threading.Thread(target=lambda: found.append(wait_work(sqlite, "compute-1", generation, 600)))
    waiting.start()
    sqlite.wakeups.stop()
    waiting.join(30)
    assert [work.generation for work in found] == [generation]


def test_there_is_no_work_for_a_host_nobody_knows(db: Database) -> None:
    with pytest.raises(NotFound) as caught:
        wait_work(db, "nowhere", 0, 0)
    assert caught.value.code == "host-not-found"


def test_the_host_is_told_of_a_bind_of_a_pool(db: Database, host: Host) -> None:
    """What the host should do has another generation then, for which its agent waits."""
    pool = str(uuid4())
    with db.write() as connection:
        (row,) = deployable.providers(connection, [capacity_of(db).rp_uuid]).values()
        provider_pool.replace(connection, row.host_id, {row.id: (pool, "t4")})
    before = current_work(db, "compute-1").generation
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", pool, str(uuid4()))])
    work = current_work(db, "compute-1")
    assert len(work.wanted) == 1
    assert work.generation > before
