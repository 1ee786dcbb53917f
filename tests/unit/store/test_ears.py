"""Wake-ups reach other processes: here each is a `Database` of its own on one server."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, text, update
from tests.databases import postgres_url
from tests.unit.engine.cloud import NOVA_FOR_ALICE, Host, capacity_of, make_profile, t4

from cantle.engine.arq import create_arqs
from cantle.engine.bind import Bind, bind
from cantle.engine.work import current_work
from cantle.errors import Unavailable
from cantle.model.event import Channel
from cantle.store import listening, outbox, polling
from cantle.store.database import Database, wake
from cantle.store.generations import Generations
from cantle.store.listening import _LONGEST, _packed
from cantle.store.polling import Polling
from cantle.store.prepared import LONGEST
from cantle.store.tables import hosts
from cantle.store.wakeups import Waiter, Wakeups


def until(true: Callable[[], bool]) -> None:
    """Wait for a condition, at most 20 s."""
    tick = threading.Event()
    for _ in range(2000):
        if true():
            return
        tick.wait(0.01)
    raise AssertionError("it never came true")


def rung(waiter: Waiter) -> bool:
    """Whether it is rung within half a minute, however long he would wait himself."""
    return waiter._rung.wait(30)


def said_by(caplog: pytest.LogCaptureFixture, thread: threading.Thread | None) -> list[str]:
    """What this one said: databases that other tests share in this process listen too."""
    assert thread is not None
    return [record.getMessage() for record in caplog.records if record.thread == thread.ident]


def listeners() -> list[threading.Thread]:
    """Those of this process, newest last. Of other threads some may just end."""
    return [thread for thread in threading.enumerate() if thread.name == "wake-ups"]


@pytest.fixture
def pair() -> Iterator[tuple[Database, Database]]:
    """Two processes on one PostgreSQL; somebody waits in the first, which listens therefore."""
    here, there = Database.open(postgres_url()), Database.open(postgres_url())
    try:
        with here.wakeups.waiter("something else"):
            until(lambda: here.wakeups.covered == ("",))
            yield here, there
    finally:
        here.close()
        there.close()


def test_a_commit_elsewhere_rings_here_without_our_looking(pair: tuple[Database, Database]) -> None:
    here, there = pair
    with here.wakeups.waiter("host/h1") as waiter, here.wakeups.waiter("host/h2") as other:
        with there.write() as connection:
            wake(connection, "host/h1")
            wake(connection, "lease/l1")
        assert rung(waiter)
        assert not other._rung.is_set()


def test_what_is_rolled_back_rings_nobody(pair: tuple[Database, Database]) -> None:
    here, there = pair
    with here.wakeups.waiter("host/h1") as waiter:
        with pytest.raises(ZeroDivisionError):
            there.run(_fails)
        with there.write() as connection:
            wake(connection, "something else")
        with here.wakeups.waiter("host/h3") as later:
            with there.write() as connection:
                wake(connection, "host/h3")
            assert rung(later), "what was committed after it is heard"
        assert not waiter._rung.is_set()


def _fails(connection: Connection) -> None:
    wake(connection, "host/h1")
    raise ZeroDivisionError


def test_ones_own_words_ring_once(pair: tuple[Database, Database]) -> None:
    here, there = pair
    with here.wakeups.waiter("host/h1") as waiter, here.wakeups.waiter("host/h2") as later:
        with here.write() as connection:
            wake(connection, "host/h1")
        assert waiter.wait(0)
        with there.write() as connection:
            wake(connection, "host/h2")
        assert rung(later)
        assert not waiter._rung.is_set()


def test_when_the_connection_is_cut_everybody_is_looked_for_or_looks_himself_until_it_is_back(
    pair: tuple[Database, Database], caplog: pytest.LogCaptureFixture
) -> None:
    here, there = pair
    ear = listeners()[-1]
    Host(there).report(t4(1))
    with here.wakeups.waiter("lease/l1") as waiter, here.wakeups.waiter("host/compute-1", has=1) as agent:
        with there.read() as connection:
            # The newest: those of other databases of this process would say in other tests' logs that they are cut.
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'cantle-listen' "
                    "ORDER BY backend_start DESC LIMIT 1"
                )
            )
        generation(there, "compute-1", 2)
        assert rung(waiter), "it is rung: something may have been missed"
        assert rung(agent), "without a word from anybody"
        until(lambda: here.wakeups.covered == ("",))
        waiter._rung.clear()
        with there.write() as connection:
            wake(connection, "lease/l1")
        assert rung(waiter)
    lost, found = said_by(caplog, ear)
    assert "are not heard for now: " in lost
    assert found == "wake-ups of other processes are heard again"


def test_a_database_in_which_nobody_waits_needs_no_listener_and_a_closed_one_has_none() -> None:
    before = listeners()
    db = Database.open(postgres_url())
    assert listeners() == before
    with db.wakeups.waiter("host/h1"):
        assert len(listeners()) == len(before) + 1
    db.close()
    assert listeners() == before


def test_very_many_topics_are_heard_too(pair: tuple[Database, Database]) -> None:
    here, there = pair
    topics = [f"lease/{uuid4()}" for _ in range(500)]
    with here.wakeups.waiter(topics[0]) as first, here.wakeups.waiter(topics[-1]) as last:
        with there.write() as connection:
            for topic in topics:
                wake(connection, topic)
        assert rung(first)
        assert rung(last)


@given(st.lists(st.text("abcö/-.", min_size=1, max_size=255), max_size=200))
def test_topics_are_packed_without_loss_into_short_messages(topics: list[str]) -> None:
    payloads = list(_packed(topics))
    assert [topic for payload in payloads for topic in payload.split("\n")] == topics
    assert all(len(payload.encode()) <= _LONGEST for payload in payloads)


def test_a_poll_rings_hosts_whose_generation_changed_and_waiting_leases_while_a_bind_is_on_the_way(
    db: Database,
) -> None:
    host = Host(db)
    host.report(t4(2))
    make_profile(db, "vgpu")
    wakeups, polling = Wakeups(0.25), Polling(db.look)
    with (
        wakeups.waiter("host/compute-1", has=current_work(db, "compute-1").generation) as agent,
        wakeups.waiter("host/other") as other,
        wakeups.waiter("lease/x") as client,
    ):
        assert not polling.look(wakeups), "nothing is being bound"
        assert not agent.wait(0)
        (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
        bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", capacity_of(db).rp_uuid, str(uuid4()))])
        with db.statements() as sent:
            assert polling.look(wakeups, at_all=False), "a bind is on the way"
        assert len(sent) == 1
        assert agent.wait(0)
        assert client.wait(0)
        assert not other.wait(0)
    with (
        wakeups.waiter("host/compute-1", has=current_work(db, "compute-1").generation) as agent,
        wakeups.waiter("lease/x") as client,
    ):
        polling.look(wakeups, at_all=False)
        assert not agent.wait(0), "it knows that already"
        assert client.wait(0), "for him it may be over"
        host.obey()
        assert not polling.look(wakeups)
        assert not client.wait(0)


def test_a_poll_misses_no_change_whichever_way_the_number_went(db: Database) -> None:
    """After a restore from a backup a generation may be lower than before."""
    Host(db).report(t4(1))
    wakeups, polling = Wakeups(0.25), Polling(db.look)
    for before, number in ((1, 50), (50, 7)):
        with wakeups.waiter("host/compute-1", has=before) as agent:
            polling.look(wakeups)
            assert not agent.wait(0)
            generation(db, "compute-1", number)
            polling.look(wakeups)
            assert agent.wait(0)


def generation(db: Database, hostname: str, number: int) -> None:
    """As if another process had raised a host's generation to this number, and told nobody."""
    with db.write() as connection:
        connection.execute(update(hosts).where(hosts.c.hostname == hostname).values(generation=number))


def waiting(wakeups: Wakeups, stack: ExitStack, count: int) -> list[Waiter]:
    """So many agents wait, each for its host, and have the first generation."""
    return [stack.enter_context(wakeups.waiter(f"host/c{number}", has=1)) for number in range(count)]


@pytest.mark.parametrize("crowd", [3, LONGEST + 1])
def test_one_look_for_a_crowd_is_one_statement_while_nothing_changes_and_finds_the_one_that_does(
    db: Database, crowd: int
) -> None:
    for number in range(4):
        Host(db, f"c{number}").report(t4(1, host=f"c{number}"))
    wakeups, generations = Wakeups(0.25), Generations()
    with ExitStack() as stack, db.read() as connection:
        waiting(wakeups, stack, crowd)
        assert generations.look(connection, wakeups) == []
        with db.statements() as sent:
            assert generations.look(connection, wakeups) == []
        assert len(sent) == 1
    generation(db, "c2", 2)
    generation(db, "c3", 2)
    with ExitStack() as stack, db.read() as connection:
        waiting(wakeups, stack, 3)
        with db.statements() as sent:
            assert generations.look(connection, wakeups) == ["host/c2"], "for the other one nobody waits"
        assert len(sent) == 2


def test_a_look_that_the_database_broke_off_half_way_is_made_again_at_once(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host that had changed was passed over for ten seconds then."""
    Host(db, "c0").report(t4(1, host="c0"))
    wakeups, generations = Wakeups(0.25), Generations()
    with ExitStack() as stack:
        waiting(wakeups, stack, 1)
        with db.read() as connection:
            generations.look(connection, wakeups)
        generation(db, "c0", 2)

        def broken(_beginning: str) -> list[str]:
            raise Unavailable("database-away", "it is not there")

        with monkeypatch.context() as away, db.read() as connection:
            away.setattr(wakeups, "waited_for", broken)
            with pytest.raises(Unavailable):
                generations.look(connection, wakeups)
        with db.read() as connection:
            assert generations.look(connection, wakeups) == ["host/c0"]


def test_changes_that_cancel_each_other_out_are_found_too(db: Database) -> None:
    """A restored database may have the same sum."""
    for name in ("c0", "c1"):
        Host(db, name).report(t4(1, host=name))
    wakeups, generations = Wakeups(0.25), Generations()
    with ExitStack() as stack:
        waiting(wakeups, stack, 2)
        with db.read() as connection:
            generations.look(connection, wakeups)
        generation(db, "c0", 0)
        generation(db, "c1", 2)
        generations._whole_at = 0.0  # a while later
        with db.read() as connection:
            assert set(generations.look(connection, wakeups)) == {"host/c0", "host/c1"}


@pytest.fixture
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who listens from now on looks at once should a wake-up be lost."""
    monkeypatch.setattr(listening, "_LOOK_S", 0.02)


@pytest.mark.usefixtures("looking_often")  # set up first
def test_a_wake_up_that_got_lost_is_made_good_by_the_one_who_listens(pair: tuple[Database, Database]) -> None:
    here, there = pair
    Host(there).report(t4(1))
    with here.wakeups.waiter("host/compute-1", has=1) as agent:
        assert here.wakeups.look_again("host/compute-1") == math.inf, "he need not look himself"
        generation(there, "compute-1", 2)
        assert rung(agent)


def test_a_poll_rings_those_who_send_events_when_there_are_new_ones(db: Database) -> None:
    wakeups, polling = Wakeups(0.25), Polling(db.look)
    with wakeups.waiter("outbox/nova") as courier:
        polling.look(wakeups)
        courier.wait(0)
        row = {"uuid": str(uuid4()), "channel": Channel.NOVA, "about": str(uuid4()), "type": "x", "body": "{}"}
        with db.write() as connection:
            outbox.post(connection, [row])
        polling.look(wakeups)
        assert courier.wait(0)


def test_it_polls_in_a_thread_and_says_so_until_it_is_stopped(sqlite: Database) -> None:
    Host(sqlite).report(t4(1))
    polling = Polling(sqlite.read)
    wakeups = Wakeups(0.25, lambda: polling.start(wakeups))
    with wakeups.waiter("host/compute-1", has=1) as agent:
        until(lambda: wakeups.watched == ("host/",))
        assert wakeups.look_again("host/compute-1") == math.inf
        assert wakeups.look_again("lease/x") == 0.25
        generation(sqlite, "compute-1", 99)
        assert rung(agent)
    polling.stop()
    assert polling._thread is None


def test_a_database_that_is_away_is_told_once_by_those_who_listen(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """There were four lines a second, in each process."""
    looks: list[None] = []

    def look() -> AbstractContextManager[Connection]:
        looks.append(None)
        if len(looks) <= 20:
            raise Unavailable("database-away", "The database is away.")
        return sqlite.read()

    monkeypatch.setattr(listening, "_DEAF_LOOK_S", 0.001)
    monkeypatch.setattr(listening, "_PAUSE_S", 0.004)
    ears = listening.Listening({"host": str(tmp_path)}, look)
    wakeups = Wakeups(1.0)
    wakeups.covered += ("",)  # until a moment ago
    ears.start(wakeups)
    thread = ears._thread
    until(lambda: len(looks) > 22)
    ears.stop()
    assert wakeups.covered == ()
    said = " ".join(said_by(caplog, thread))
    assert [said.count(words) for words in ("not heard for now", "not seen for now", "seen again")] == [1, 1, 1]


def test_a_database_that_is_away_is_told_once_by_those_who_poll(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks: list[None] = []

    def look() -> AbstractContextManager[Connection]:
        looks.append(None)
        if len(looks) <= 3:
            raise Unavailable("database-away", "The database is away.")
        return sqlite.read()

    monkeypatch.setattr(polling, "AWAY_S", 0.001)
    wakeups = Wakeups(0.25, lambda: ears.start(wakeups))
    ears = Polling(look)
    with wakeups.waiter("host/compute-1", has=1):
        until(lambda: wakeups.watched == ("host/",))
    thread = ears._thread
    ears.stop()
    said = " ".join(said_by(caplog, thread))
    assert [said.count(words) for words in ("not seen for now", "seen again")] == [1, 1]


def test_a_server_that_ends_just_as_its_ears_have_ended_ends_without_a_broken_pipe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They were between two tries of a database that was away, and saw that they should end before they were woken."""

    def look() -> AbstractContextManager[Connection]:
        raise Unavailable("database-away", "The database is away.")

    monkeypatch.setattr(listening, "_DEAF_LOOK_S", 0.001)
    ears = listening.Listening({"host": str(tmp_path)}, look)
    ears.start(Wakeups(1.0))
    thread = ears._thread
    assert thread is not None
    ears._stop.set()
    thread.join(10)
    assert not thread.is_alive()
    ears.stop()
    ears.stop()
