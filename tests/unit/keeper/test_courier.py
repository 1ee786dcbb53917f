"""Events reach their receiver at least once and in order, however many keepers there are and whenever they die."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update
from tests.databases import server_url
from tests.unit.engine.cloud import NOVA_FOR_ALICE
from tests.unit.keeper.conftest import Cloud, until

from cantle.engine.bind import Unbind, unbind
from cantle.errors import Unavailable
from cantle.keeper import courier as courier_module
from cantle.keeper.courier import CLAIM_S, LONGEST_PAUSE_S, Courier, _pause
from cantle.model.event import Answer, Channel, Event, Verdict
from cantle.store import outbox as store
from cantle.store.database import Database
from cantle.store.tables import outbox
from cantle.store.types import database_now


@dataclass
class Told:
    """A receiver in memory. ``verdicts`` come in turn, then everything is taken."""

    channel: Channel = Channel.NOVA
    batch: int = 10
    patience_s: float = 1e9
    verdicts: list[Verdict] = field(default_factory=list)
    heard: list[Event] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def send(self, events: Sequence[Event]) -> list[Verdict]:
        """Remember and answer."""
        with self.lock:
            self.heard += events
            return [self.verdicts.pop(0) if self.verdicts else Verdict(Answer.DELIVERED) for _ in events]


def courier(db: Database, told: Told, claim_s: float = CLAIM_S) -> Courier:
    """One that takes events to the receiver in memory."""
    return Courier(db, told, stop=threading.Event(), claim_s=claim_s)


def post(db: Database, about: str, *words: str) -> None:
    """Write events about one thing."""
    with db.write() as connection:
        rows = [
            {
                "uuid": f"{about[:8]}-{word:>027}",
                "channel": Channel.WEBHOOK,
                "about": about,
                "type": "arq.bound",
                "body": json.dumps({"word": word}),
            }
            for word in words
        ]
        store.post(connection, rows)


def words(told: Told) -> list[str]:
    """What was heard, in order."""
    return [json.loads(event.body)["word"] for event in told.heard]


ONE, OTHER = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"


def test_events_about_one_thing_wait_for_each_other_and_for_no_other_thing(cloud: Cloud) -> None:
    post(cloud.db, ONE, "a", "b", "c")
    post(cloud.db, OTHER, "x", "y")
    told = Told(Channel.WEBHOOK, verdicts=[Verdict(Answer.LATER, "busy")])
    sender = courier(cloud.db, told)
    sender.round()
    assert words(told) == ["a", "x"]
    sender.round()
    assert words(told) == ["a", "x", "y"], "b waits for a"
    cloud.time_passes()
    while sender.round():
        pass
    assert words(told) == ["a", "x", "y", "a", "b", "c"]


def test_of_many_keepers_one_sends_each_event_and_the_order_is_kept(cloud: Cloud) -> None:
    letters = "abcdefgh"
    for about in (ONE, OTHER, "33333333-3333-3333-3333-333333333333"):
        post(cloud.db, about, *letters)
    told = Told(Channel.WEBHOOK, batch=2)

    def deliver(_number: int) -> None:
        sender = courier(cloud.db, told)
        until(lambda: sender.round() == 0 and None not in cloud.outcomes(Channel.WEBHOOK))

    with ThreadPoolExecutor(4) as keepers:
        list(keepers.map(deliver, range(4)))
    assert len(told.heard) == 24
    for about in (ONE, OTHER):
        assert "".join(json.loads(event.body)["word"] for event in told.heard if event.about == about) == letters


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_a_killed_keeper_had_claimed_is_sent_by_another_once_its_time_is_over(cloud: Cloud, when: str) -> None:
    arq = cloud.bound()
    kind = cloud.db.dialect
    url = f"sqlite:///{cloud.directory / 'cantle.db'}" if kind == "sqlite" else server_url(kind)
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.keeper.doomed", url, "3600", when],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == -9, done.stderr
    assert bool(done.stdout) is (when == "after")
    told = Told()
    assert courier(cloud.db, told).round() == 0, "the dead one's claim holds"
    cloud.time_passes()
    courier(cloud.db, told).round()
    assert [event.about for event in told.heard] == [arq.uuid]
    assert told.heard[0].attempts == 2
    assert cloud.outcomes() == ["delivered"]


def test_a_keeper_that_was_too_slow_does_not_undo_what_another_wrote(cloud: Cloud) -> None:
    cloud.bound()
    quick = Told()

    class Slow(Told):
        """While it sends, its claim runs out and another keeper delivers."""

        def send(self, events: Sequence[Event]) -> list[Verdict]:
            cloud.time_passes()
            courier(cloud.db, quick).round()
            return [Verdict(Answer.LATER, "cut off")] * len(events)

    courier(cloud.db, Slow()).round()
    assert len(quick.heard) == 1
    assert cloud.outcomes() == ["delivered"]


def test_a_request_that_is_let_go_while_its_event_is_on_the_way_ends_it(cloud: Cloud) -> None:
    arq = cloud.failed()

    class Meanwhile(Told):
        """Nova unbinds while it is told."""

        def send(self, events: Sequence[Event]) -> list[Verdict]:
            unbind(cloud.db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
            return super().send(events)

    courier(cloud.db, Meanwhile()).round()
    cloud.time_passes()
    told = Told()
    courier(cloud.db, told).round()
    assert told.heard == []
    assert cloud.outcomes() == ["withdrawn"]


@pytest.mark.parametrize(("answer", "outcome"), [(Answer.DELIVERED, None), (Answer.REFUSED, "refused")])
def test_a_failure_is_repeated_while_it_is_taken_and_not_once_it_is_refused(
    cloud: Cloud, answer: Answer, outcome: str | None
) -> None:
    cloud.failed()
    courier(cloud.db, Told(verdicts=[Verdict(answer, "why")])).round()
    assert cloud.outcomes() == [outcome]


def test_an_event_is_given_up_when_it_is_older_than_its_receivers_patience(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    post(cloud.db, ONE, "a", "b")
    told = Told(Channel.WEBHOOK, patience_s=3600, verdicts=[Verdict(Answer.LATER, "no")] * 2)
    sender = courier(cloud.db, told)
    sender.round()
    assert cloud.outcomes(Channel.WEBHOOK) == [None, None]
    with cloud.db.write() as connection:
        old = database_now(-3601)
        connection.execute(update(outbox).where(outbox.c.about == ONE).values(created_at=old, due_at=old))
    sender.round()
    assert cloud.outcomes(Channel.WEBHOOK) == ["given-up", None]
    assert "is given up: no" in caplog.text


def test_a_database_that_is_away_is_waited_for(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cloud.bound()
    monkeypatch.setattr(courier_module, "AWAY_S", 0.01)
    real, failures = store.waiting, iter([Unavailable("database-away", "The database is away.")] * 3)

    def waiting(*args: object) -> object:
        for error in failures:
            raise error
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "waiting", waiting)
    told = Told()
    stop = threading.Event()
    running = threading.Thread(target=Courier(cloud.db, told, stop=stop).run)
    running.start()
    until(lambda: cloud.outcomes() == ["delivered"])
    stop.set()
    running.join(20)
    assert not running.is_alive()
    told_of = [record.getMessage() for record in caplog.records if record.name == "cantle.keeper.courier"]
    assert told_of == [
        "events to nova: database-away: The database is away.",
        "events to nova: the database answers again",
    ]


@given(st.integers(1, 10_000))
def test_pauses_grow_are_spread_and_have_an_end(attempts: int) -> None:
    longest = min(LONGEST_PAUSE_S, 2.0**attempts / 2) if attempts < 20 else LONGEST_PAUSE_S
    assert longest / 2 <= _pause(attempts, None) <= longest
    assert _pause(attempts, 1.5) == 1.5
