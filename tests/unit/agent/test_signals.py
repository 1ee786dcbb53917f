"""What happens to guests is looked at, whatever else the agent is told at the same moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from sqlalchemy import select, update
from tests.unit.agent.service import TOKEN, Run, Service, running, until
from tests.unit.attach.test_domains import put, status, xml

from cantle import simulate
from cantle.agent.agent import Agent
from cantle.agent.away import Away
from cantle.agent.backoff import Backoff
from cantle.agent.passes import Pass
from cantle.agent.upkeep import Upkeep
from cantle.api.app import agents_app
from cantle.api.settings import Settings
from cantle.attach.libvirt import hostdev_xml
from cantle.errors import HostError
from cantle.kernel import mdev
from cantle.model.lease import LeaseState
from cantle.store.database import host_topic
from cantle.store.host import lock_named
from cantle.store.tables import claims, hosts


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows by one with each look at the guests."""
    found: list[None] = []
    look = Upkeep.look_at_guests

    def counted(upkeep: Upkeep) -> bool:
        found.append(None)
        return look(upkeep)

    monkeypatch.setattr(Upkeep, "look_at_guests", counted)
    return found


def test_a_guest_that_ends_just_as_new_work_comes_is_looked_at_all_the_same(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, looks: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was forgotten until the next look at everything: a guest-stopped lease stayed lent for a minute."""
    monkeypatch.setattr(Agent, "_watch", lambda _agent: None)  # the kernel's own events would bring about a look soon
    application = agents_app(service.db, Settings(agents_token=TOKEN))
    said: list[str] = []
    agents: list[Agent] = []
    looks_before: list[int] = []

    def meanwhile(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """While the agent reports what its first unit has changed, a call that waits for nothing: a signal, and a new generation."""
        said.append(environ["REQUEST_METHOD"])
        if said[-1] == "PUT" and "POST" in said and not looks_before:
            with service.db.write() as connection:
                assert lock_named(connection, "node1")
            looks_before.append(len(looks))
            agents[0].settle_again()
        answer: Iterable[bytes] = application(environ, start_response)
        return answer

    service.down()
    service.up(meanwhile)
    with running(service, t4, tmp_path / "agent", rescan=3600.0) as run:
        agents.append(run.agent)
        assert service.borrow("slice").state is LeaseState.ACTIVE
        until(lambda: looks_before and len(looks) > looks_before[0])


class _RacedEvent(threading.Event):
    """One that somebody sets at the worst moment: just after it was found to be down."""

    def __init__(self) -> None:
        super().__init__()
        self.race: Callable[[], None] | None = None

    def is_set(self) -> bool:
        answer = super().is_set()
        if not answer and self.race is not None:
            race, self.race = self.race, None
            race()
        return answer


class _Recorded:
    """The agents' listener, which refuses as many reports as it is told to, and remembers what it was asked.

    ``waits``: it was asked last for work that is waited for. ``meanwhile``: happens once, while results are on their way.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self._application = agents_app(service.db, Settings(agents_token=TOKEN))
        self._said: list[str] = []
        self.refuses = 0
        self.waits = False
        self.meanwhile: Callable[[], None] | None = None
        service.down()
        service.up(self)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        wait = float(dict(parse_qsl(environ["QUERY_STRING"])).get("wait", "0"))
        self.waits = environ["REQUEST_METHOD"] == "GET" and wait > 1
        self._said.append(environ["REQUEST_METHOD"])
        if self._said[-1] == "POST" and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        if self._said[-1] == "PUT" and self.refuses:
            self.refuses -= 1
            start_response("503 Service Unavailable", [("Content-Length", "0")])
            return [b""]
        answer: Iterable[bytes] = self._application(environ, start_response)
        return answer

    @property
    def reports(self) -> int:
        """How many came."""
        return self._said.count("PUT")

    @property
    def is_quiet(self) -> bool:
        """The agent has reported what its first unit has changed and waits for work: nothing else brings about a look for an hour."""
        told = self._said.index("POST") if "POST" in self._said else len(self._said)
        return "PUT" in self._said[told:-1] and self._said[-1] == "GET"


def test_a_container_that_ends_while_the_agent_finds_nothing_changed_is_looked_at(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, looks: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event was found down, set by the hook's thread, and taken down unseen."""
    monkeypatch.setattr(Agent, "_watch", lambda _agent: None)
    server = _Recorded(service)
    with running(service, t4, tmp_path / "agent", rescan=3600.0) as run:
        assert service.borrow("slice").state is LeaseState.ACTIVE
        until(lambda: server.is_quiet)
        before = len(looks)
        raced = _RacedEvent()
        raced.race = run.agent.look_again
        monkeypatch.setattr(run.agent._signals, "_host", raced)
        run.agent._client.interrupt()  # a round in which nothing has changed yet
        until(lambda: len(looks) > before)
        assert raced.race is None
        until(lambda: server.waits)  # and does not look for ever


def test_a_container_that_ends_while_the_server_takes_no_report_is_looked_at(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, looks: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal was spent on a look whose report the busy server refused; nobody looked at the guests after that."""
    monkeypatch.setattr(Agent, "_watch", lambda _agent: None)
    server = _Recorded(service)
    ahead = [0.0]
    with running(service, t4, tmp_path / "agent", rescan=3600.0, wall=lambda: time.time() + ahead[0]) as run:
        assert service.borrow("slice").state is LeaseState.ACTIVE
        until(lambda: server.is_quiet)
        before = len(looks)
        ahead[0] = 3600.0  # so that there is something to report
        server.refuses = 1
        run.agent.look_again()
        until(lambda: len(looks) > before)
        assert server.refuses == 0


def test_guests_that_could_not_be_looked_at_are_looked_at_again_soon_also_when_new_work_comes_between(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, looks: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Agent, "_watch", lambda _agent: None)
    server = _Recorded(service)
    place = Path(t4.path, "run/libvirt/qemu/vm1.xml")
    with running(service, t4, tmp_path / "agent", rescan=3600.0) as run:
        monkeypatch.setattr(run.agent, "_retry", Backoff(0.1, 0.1))
        assert service.borrow("slice").state is LeaseState.ACTIVE
        until(lambda: server.is_quiet)
        place.mkdir(parents=True)  # no file that could be read
        before = len(looks)
        run.agent.settle_again()
        until(lambda: len(looks) > before + 1)
        generation = run.agent._telling.generation
        with service.db.write() as connection:
            assert lock_named(connection, "node1")
        until(lambda: run.agent._telling.generation != generation)
        between = len(looks)
        until(lambda: len(looks) > between)
        place.rmdir()
        until(lambda: run.agent._retry_at is None)


def test_a_slice_of_a_host_that_cannot_be_read_for_a_moment_is_made_with_the_next_try(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work was taken for done: nobody looked at it until the next look at everything, and by then its bind had failed."""
    monkeypatch.setattr(Agent, "_watch", lambda _agent: None)
    server = _Recorded(service)
    with running(service, t4, tmp_path / "agent", rescan=3600.0):
        first = service.borrow("slice")
        until(lambda: server.is_quiet)
        settle, errors = Upkeep.settle, [HostError("host-read-failed", "mdev: Input/output error")]

        def settled(upkeep: Upkeep) -> Pass:
            for error in errors:
                errors.clear()
                raise error
            return settle(upkeep)

        monkeypatch.setattr(Upkeep, "settle", settled)
        assert service.borrow("slice").state is LeaseState.ACTIVE
        assert errors == []
        assert service.give_back(first).state is LeaseState.RELEASED


def test_what_the_server_passed_over_since_more_had_happened_to_the_unit_is_told_again(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = _Recorded(service)

    def happen() -> None:
        with service.db.write() as connection:
            assert lock_named(connection, "node1")
            generation = select(hosts.c.generation).where(hosts.c.id == claims.c.host_id).scalar_subquery()
            connection.execute(update(claims).values(generation=generation))

    server.meanwhile = happen
    with running(service, t4, tmp_path / "agent", rescan=3600.0):
        assert service.borrow("slice").state is LeaseState.ACTIVE
        assert server.meanwhile is None


def test_an_agent_in_whose_place_somebody_waits_lets_the_server_decide_who_speaks_for_the_host(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the two would take turns in waiting for work, as fast as they could."""
    monkeypatch.setattr(Agent, "_watch", lambda _agent: None)
    server = _Recorded(service)
    with running(service, t4, tmp_path / "agent", rescan=3600.0):
        assert service.borrow("slice").state is LeaseState.ACTIVE
        until(lambda: server.is_quiet)
        reports = server.reports
        with service.db.wakeups.waiter(host_topic("node1"), alone=True):
            pass
        until(lambda: server.reports > reports)


def _leave_alone_for_long(run: Run, server: _Recorded, monkeypatch: pytest.MonkeyPatch, *, with_news: float) -> None:
    """Let the agent pause for half an hour at least: its server has gone."""
    until(lambda: server.is_quiet)
    monkeypatch.setattr(run.agent, "_away", Away(time.monotonic, 3600.0, first=3600.0, with_news=with_news))
    server.service.down()
    until(lambda: run.agent._away._since is not None)


def test_a_slice_that_goes_while_the_agent_leaves_its_server_alone_is_made_again_at_once(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal was kept for the next try, up to a minute later."""
    server = _Recorded(service)
    with running(service, t4, tmp_path / "agent", rescan=3600.0) as run:
        assert service.borrow("slice").state is LeaseState.ACTIVE
        unit = mdev.devices(t4)[0].uuid
        _leave_alone_for_long(run, server, monkeypatch, with_news=3600.0)
        mdev.remove(t4, unit)
        run.agent.look_again()
        until(lambda: mdev.device(t4, unit) is not None)
        service.up()


def test_a_guest_that_ends_while_the_agent_leaves_its_server_alone_is_looked_at_then_and_told_once_the_server_is_back(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, looks: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server heard of it after the full pause."""
    monkeypatch.setattr(Agent, "_watch", lambda _agent: None)
    server = _Recorded(service)
    with running(service, t4, tmp_path / "agent", rescan=3600.0) as run:
        lease = service.borrow("slice")
        unit = mdev.devices(t4)[0].uuid
        put(Path(t4.path), "run/libvirt/qemu/vm1.xml", status(xml(devices=hostdev_xml("MDEV", {}, unit))))
        before = len(looks)
        run.agent.settle_again()
        until(lambda: len(looks) > before)
        _leave_alone_for_long(run, server, monkeypatch, with_news=0.2)
        before = len(looks)
        Path(t4.path, "run/libvirt/qemu/vm1.xml").unlink()
        run.agent.settle_again()
        until(lambda: len(looks) > before)
        service.up()
        until(lambda: service.settled(lease.uuid).arqs[0].reason_code == "guest-gone")
