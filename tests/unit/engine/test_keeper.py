"""The keeper: deadlines and expiry, with any number of keepers."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from sqlalchemy import select, update
from tests.unit.engine.cloud import ADMIN, ALICE, NOVA_FOR_ALICE, Host, bound, capacity_of, make_profile, t4

from cantle.engine.arq import create_arqs, delete_arqs_of_instance, get_arq
from cantle.engine.bind import Bind, bind
from cantle.engine.clock import now
from cantle.engine.lease import create_lease, get_lease, list_leases
from cantle.engine.results import accept_results
from cantle.engine.work import current_work
from cantle.errors import Unavailable
from cantle.keeper import deadline, expiry
from cantle.keeper.keeper import Keeper
from cantle.model.arq import ArqState
from cantle.model.lease import LeaseState
from cantle.store import bind as bind_store
from cantle.store.database import Database
from cantle.store.tables import arqs, instance_owners, leases
from cantle.store.types import database_now


@pytest.fixture
def host(db: Database) -> Host:
    """A host with eight vGPUs, and a profile for them."""
    one = Host(db)
    one.report(t4(8))
    make_profile(db, "vgpu")
    return one


def time_passes(db: Database) -> None:
    """All deadlines and expiry dates are over."""
    with db.write() as connection:
        connection.execute(update(arqs).where(arqs.c.deadline.is_not(None)).values(deadline=database_now(-1)))
        connection.execute(update(leases).where(leases.c.expires_at.is_not(None)).values(expires_at=database_now(-1)))


def test_a_bind_the_host_does_not_answer_ends_as_failed_and_its_unit_is_taken_back(db: Database, host: Host) -> None:
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", capacity_of(db).rp_uuid, str(uuid4()))])
    late = host.results(current_work(db, "compute-1"))
    with db.write() as connection:
        assert not bind_store.expire(connection, arq.id, "x", "y", now(), announced=0.0), "its time is not over"
    assert deadline.sweep(db) == 0
    time_passes(db)
    assert deadline.sweep(db) == 1
    assert deadline.sweep(db) == 0
    failed = get_arq(db, ALICE, arq.uuid)
    assert (failed.state, failed.reason_code) == (ArqState.BIND_FAILED, "bind-timeout")
    assert failed.reason == "Host compute-1 did not make the unit ready within 60 s."
    work = current_work(db, "compute-1")
    assert len(work.unwanted) == 1
    assert work.generation > late.generation, "or its agent, which waits, would not hear of it"
    accept_results(db, "compute-1", late)
    assert get_arq(db, ALICE, arq.uuid).state is ArqState.BIND_FAILED, "the late answer is passed over"
    host.obey()
    assert capacity_of(db).free == 8


def test_what_is_settled_has_no_deadline_any_more(db: Database, host: Host) -> None:
    bound(db, host)
    with db.read() as connection:
        assert connection.execute(select(arqs.c.deadline)).scalars().all() == [None]


def test_a_lease_whose_host_does_not_answer_is_failed(db: Database, host: Host) -> None:
    lease = create_lease(db, ALICE, profile_name="vgpu")
    time_passes(db)
    assert deadline.sweep(db) == 1
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.FAILED


@pytest.mark.parametrize("sweep", [deadline.sweep, expiry.sweep])
def test_of_many_keepers_each_thing_is_ended_by_one(db: Database, host: Host, sweep: Callable[[Database], int]) -> None:
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    for _ in range(8):
        create_lease(db, ALICE, profile_name="vgpu", expires_at=soon)
    time_passes(db)
    with ThreadPoolExecutor(4) as keepers:
        ended = list(keepers.map(lambda _: sweep(db), range(4)))
    assert sum(ended) == 8
    state = LeaseState.FAILED if sweep is deadline.sweep else LeaseState.RELEASING
    assert {lease.state for lease in list_leases(db, ADMIN)} == {state}
    assert len(current_work(db, "compute-1").unwanted) == 8


def test_a_round_does_all_that_is_due_and_owners_not_seen_for_long_are_forgotten(db: Database, host: Host) -> None:
    instance = str(uuid4())
    bound(db, host, instance=instance)
    delete_arqs_of_instance(db, NOVA_FOR_ALICE, instance)
    lease = create_lease(db, ALICE, profile_name="vgpu", expires_at=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
    with db.write() as connection:
        assert connection.execute(select(instance_owners.c.project_id)).scalars().all() == ["alice-project"]
        connection.execute(update(instance_owners).values(seen_at=database_now(-86400 * 401)))
    time_passes(db)
    Keeper(db, stop=threading.Event()).round()
    assert get_lease(db, ALICE, lease.uuid).state is LeaseState.RELEASING
    with db.read() as connection:
        assert connection.execute(select(instance_owners.c.project_id)).scalars().all() == []


def test_it_stops_when_told_and_outlives_a_database_that_is_away_which_it_tells_once(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop, rounds = threading.Event(), threading.Event()
    real = expiry.sweep
    answers = iter([Unavailable("database-away", "The database is away.")] * 3)

    def sweep(db: Database, *, warning: float) -> int:
        for error in answers:
            raise error
        rounds.set()
        return real(db, warning=warning)

    monkeypatch.setattr("cantle.keeper.keeper.AWAY_S", 0.01)
    monkeypatch.setattr(expiry, "sweep", sweep)
    keeper = threading.Thread(target=Keeper(sqlite, stop=stop, every=0.01).run)
    keeper.start()
    assert rounds.wait(30)
    stop.set()
    keeper.join(30)
    assert not keeper.is_alive()
    assert [record.getMessage() for record in caplog.records if record.name == "cantle.keeper.keeper"] == [
        "keeper: database-away: The database is away.",
        "keeper: the database answers again",
    ]
