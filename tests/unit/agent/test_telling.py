"""What the server is told of units: each outcome once, in the order it was found in, and again until it was heard."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.agent.life import FIRST, SECOND, THIRD, Life, card, slice_

from cantle import simulate
from cantle.agent.client import Client
from cantle.agent.handed import Handed
from cantle.agent.reports import Reports
from cantle.agent.telling import Telling
from cantle.cli.listen import Address, HttpServer
from cantle.errors import Unavailable
from cantle.wire.work import HandleResult, Outcome, Results, Work


class Server:
    """Takes results, unless it is busy. ``sent``: all that came; ``knows``: what it has taken, the last of each unit."""

    def __init__(self) -> None:
        self.begin(Path())

    def begin(self, directory: Path) -> None:
        """Forget all, and look at what this agent's directory has."""
        self._directory = directory
        self.busy = False
        self.sent: list[Results] = []
        self.knows: dict[str, HandleResult] = {}
        self.handed_then: list[frozenset[str]] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """WSGI."""
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        self.sent.append(msgspec.json.decode(body, type=Results))
        handed = Handed(self._directory)
        handed.load(())
        self.handed_then.append(frozenset(handed.uuids))
        if not self.busy:
            self.knows.update((one.uuid, one) for one in self.sent[-1].results)
        start_response("503 Service Unavailable" if self.busy else "204 No Content", [("Content-Length", "0")])
        return [b""]


@dataclass
class Talk:
    """One agent's, with its server."""

    server: Server
    life: Life
    client: Client

    def telling(self, generation: int | None = 1) -> Telling:
        """One that has told nothing yet."""
        self.server.begin(self.life.directory)
        reports = Reports(self.client.report, lambda: self.life.time)
        made = Telling("node1", self.client, self.life.upkeep, reports)
        made.generation = generation
        return made


@pytest.fixture(scope="module")
def listening() -> Iterator[tuple[str, Server]]:
    """One for all: it takes half a second to end."""
    server = Server()
    http = HttpServer(Address("127.0.0.1", 0), threads=2, name="test")
    thread = threading.Thread(target=http.serve, args=(server,), daemon=True)
    thread.start()
    yield http.url, server
    http.stop()
    thread.join(20)


@pytest.fixture
def talk(listening: tuple[str, Server], t4: simulate.SimulatedRoot, tmp_path: Path) -> Iterator[Talk]:
    """A host with nothing lent."""
    url, server = listening
    client = Client(url, "node1")
    yield Talk(server, Life(t4, tmp_path / "agent"), client)
    client.disconnect()


OUTCOMES = st.sampled_from(
    [
        (Outcome.READY, None),
        (Outcome.READY, "guest-stopped"),
        (Outcome.FAILED, "device-held"),
        (Outcome.ABSENT, None),
    ]
)
FOUND = st.dictionaries(st.sampled_from([FIRST, SECOND, THIRD]), OUTCOMES)
#: What a pass found and whether the server is busy then; None: another state is wanted.
STEPS = st.lists(st.none() | st.tuples(FOUND, st.booleans()), max_size=8)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_the_server_knows_what_was_found_last_and_hears_nothing_twice(talk: Talk, steps: list[Any]) -> None:
    telling = talk.telling()
    heard: dict[str, HandleResult] = {}
    for step in steps:
        if step is None:
            telling.forget()
            heard.clear()
            continue
        found, talk.server.busy = step
        results = [HandleResult(uuid, outcome, code) for uuid, (outcome, code) in found.items()]
        news = tuple(one for one in results if heard.get(one.uuid) != one)
        before = len(talk.server.sent)
        if news and talk.server.busy:
            with pytest.raises(Unavailable):
                telling.tell(results)
        else:
            telling.tell(results)
            heard.update((one.uuid, one) for one in news)
            assert all(talk.server.knows[one.uuid] == one for one in results)
        assert [one.results for one in talk.server.sent[before:]] == ([news] if news else [])
        assert telling.is_late == bool(news and talk.server.busy)
        assert telling.gone == {uuid for uuid, one in heard.items() if one.outcome is Outcome.ABSENT}


def test_what_is_ready_is_on_the_disk_as_handed_over_before_the_server_hears_of_it(talk: Talk) -> None:
    """The other way round, an agent that ends in between would not know of a unit that a guest may hold."""
    talk.life.follow(1, slice_(FIRST), slice_(SECOND, mark=1))
    telling = talk.telling()
    talk.life.upkeep.follow(Work(2, (slice_(FIRST), slice_(SECOND, mark=1), slice_(THIRD, mark=2))))
    telling.generation = 2
    telling.tell(talk.life.upkeep.settle().results)
    assert [one.generation for one in talk.server.sent] == [2]
    assert talk.server.handed_then == [{FIRST, SECOND, THIRD}]


def test_that_a_unit_is_being_cleaned_comes_before_what_came_of_it(talk: Talk) -> None:
    telling = talk.telling()
    talk.life.upkeep.when_cleaning(telling.cleaning)
    talk.life.follow(1, card(FIRST))
    talk.life.upkeep.follow(Work(2, (), (card(FIRST),)))
    telling.tell(talk.life.upkeep.settle().results)
    told = [one.outcome for sent in talk.server.sent for one in sent.results if one.uuid == FIRST]
    assert told == [Outcome.CLEANING, Outcome.ABSENT]


def test_a_busy_server_does_not_keep_a_unit_from_being_cleaned_and_hears_of_it_in_the_end(talk: Talk) -> None:
    telling = talk.telling()
    talk.server.busy = True
    telling.cleaning(FIRST)
    assert not telling.is_late
    talk.server.busy = False
    telling.tell([HandleResult(FIRST, Outcome.ABSENT)])
    assert talk.server.knows[FIRST].outcome is Outcome.ABSENT


def test_nothing_is_told_before_the_server_was_heard(talk: Talk) -> None:
    telling = talk.telling(generation=None)
    telling.cleaning(FIRST)
    telling.tell([HandleResult(FIRST, Outcome.READY)])
    assert (talk.server.sent, telling.is_late) == ([], True)
    telling.generation = 1
    telling.tell([HandleResult(FIRST, Outcome.READY)])
    assert (talk.server.knows[FIRST].outcome, telling.is_late) == (Outcome.READY, False)


def test_a_unit_that_is_back_was_handed_to_nobody_even_while_the_server_names_it(tmp_path: Path) -> None:
    """Whoever holds it when it is lent next is a stranger."""
    handed = Handed(tmp_path)
    handed.note([FIRST, SECOND], [], {FIRST, SECOND})
    handed.note([], [FIRST], {FIRST, SECOND})
    again = Handed(tmp_path)
    again.load(())
    assert handed.uuids == again.uuids == frozenset({SECOND})
