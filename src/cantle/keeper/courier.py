"""Takes events from the outbox to one receiver: at least once each, those about one thing in order, however often we are killed.

An event is claimed (committed) before it is sent and ended after it was accepted. Whoever dies between loses the claim by time, and the
event is sent again: receivers know repetitions by the event's uuid, Nova by their having no effect.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from sqlalchemy import Connection

from cantle.errors import Unavailable
from cantle.model import uuids
from cantle.model.event import Answer, Channel, Event, Verdict
from cantle.store import outbox
from cantle.store.database import Database, outbox_topic
from cantle.store.trouble import Trouble

LOG = logging.getLogger(__name__)

#: How long a claim lasts. Longer than any call: a receiver's timeouts are bounded well below it.
CLAIM_S = 60.0
#: Between looks at the outbox without a hint: repeated events, and those put off, become due.
LOOK_S = 0.5
#: Between attempts while the database is away.
AWAY_S = 5.0
#: Pauses between attempts of one event: the first is up to this long, each next up to twice as long, none longer than the last number.
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0


class Receiver(Protocol):
    """Somebody who is told of events.

    ``batch`` is how many he takes in one call; within `CLAIM_S` he has answered. After ``patience_s`` an event is given up.
    """

    @property
    def channel(self) -> Channel:
        """Whose events are his."""

    @property
    def batch(self) -> int:
        """The most events of one call."""

    @property
    def patience_s(self) -> float:
        """For how long an event is tried."""

    def send(self, events: Sequence[Event]) -> list[Verdict]:
        """One verdict for each event, in the same order."""


class Courier:
    """Delivers until told to stop. Run as many as you like, in as many processes.

    :param stop: set it to end `run` after the call under way.
    :param claim_s: how long a claim lasts.
    :param beat: called whenever it goes on to the next thing.
    """

    def __init__(
        self,
        db: Database,
        receiver: Receiver,
        *,
        stop: threading.Event,
        claim_s: float = CLAIM_S,
        beat: Callable[[], object] = lambda: None,
    ) -> None:
        self._db = db
        self._receiver = receiver
        self._stop = stop
        self._claim_s = claim_s
        self._beat = beat

    def run(self) -> None:
        """Deliver what is there, wait for more, and so on. A database that is away is waited for."""
        to = f"events to {self._receiver.channel}"
        trouble = Trouble(LOG, f"{to}: the database answers again")
        with self._db.wakeups.waiter(outbox_topic(self._receiver.channel)) as waiter:
            while not self._stop.is_set():
                self._beat()
                try:
                    tried = self.round()
                    trouble.over()
                    if tried == 0:
                        waiter.wait(LOOK_S)
                except Unavailable as error:
                    trouble.met(f"{to}: {error.code}: {error.message}")
                    self._stop.wait(AWAY_S)

    def round(self) -> int:
        """Send one batch of what is due; how many events were tried or withdrawn.

        :raises Unavailable: the database is away. What was sent meanwhile is sent again later.
        """
        channel = self._receiver.channel
        with self._db.read() as connection:
            ids, stale = outbox.waiting(connection, channel, self._receiver.batch)
        if not ids and not stale:
            return 0
        keeper = uuids.new()
        taken = self._take(ids, stale, keeper)
        if taken:
            verdicts = self._receiver.send([event for event, _old in taken])
            self._conclude(keeper, taken, verdicts)
        return len(taken) + len(stale)

    def _take(self, ids: Sequence[int], stale: Sequence[int], keeper: str) -> list[tuple[Event, bool]]:
        patience = min(self._receiver.patience_s, 1e9)

        def work(connection: Connection) -> list[tuple[Event, bool]]:
            outbox.withdraw(connection, stale)
            return outbox.claim(
                connection, self._receiver.channel, ids, keeper, seconds=self._claim_s, patience=patience
            )

        return self._db.run(work)

    def _conclude(self, keeper: str, taken: Sequence[tuple[Event, bool]], verdicts: Sequence[Verdict]) -> None:
        ended: list[tuple[int, Answer | str, str]] = []
        later: list[tuple[int, float, str]] = []
        for (event, old), verdict in zip(taken, verdicts, strict=True):
            if verdict.answer is Answer.DELIVERED and event.repeating:
                later.append((event.id, outbox.REPEAT_S, ""))
            elif verdict.answer is not Answer.LATER:
                ended.append((event.id, verdict.answer, verdict.why))
            elif old:
                ended.append((event.id, outbox.GIVEN_UP, verdict.why))
            else:
                later.append((event.id, _pause(event.attempts, verdict.after), verdict.why))
        self._tell(taken, verdicts, {number for number, how, _ in ended if how == outbox.GIVEN_UP})

        def work(connection: Connection) -> None:
            outbox.end(connection, keeper, ended)
            outbox.put_off(connection, keeper, later)

        self._db.run(work)

    def _tell(self, taken: Sequence[tuple[Event, bool]], verdicts: Sequence[Verdict], given_up: set[int]) -> None:
        """Log what did not go well: each that ends so, and of those that are tried again one as an example."""
        channel = self._receiver.channel
        waiting = []
        for (event, _old), verdict in zip(taken, verdicts, strict=True):
            if event.id in given_up:
                LOG.error("event %s to %s (%s) is given up: %s", event.uuid, channel, event.body, verdict.why)
            elif verdict.answer is Answer.REFUSED:
                LOG.warning("event %s to %s (%s) is not sent again: %s", event.uuid, channel, event.body, verdict.why)
            elif verdict.answer is Answer.LATER and event.attempts == 1 and verdict.after is not None:
                # At nearly every boot: a bind is quicker than Nova is with the instance's host.
                LOG.info("event %s to %s is sent again in %g s: %s", event.uuid, channel, verdict.after, verdict.why)
            elif verdict.answer is Answer.LATER:
                waiting.append(f"event {event.uuid} (attempt {event.attempts}): {verdict.why}")
        if waiting:
            LOG.warning("%d events to %s will be sent again, such as %s", len(waiting), channel, waiting[0])


def _pause(attempts: int, after: float | None) -> float:
    """Seconds until the next attempt: longer each time, spread by chance so that many do not come at once."""
    if after is not None:
        return after
    longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(attempts, 16))
    return random.uniform(longest / 2, longest)  # noqa: S311 - spreads the tries, guards nothing
