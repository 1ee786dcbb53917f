"""Wake-ups: hints that something may have changed, never data. Register the waiter first, then read; a hint in between is kept.

A hint can be lost (another process wrote, the server was restarted), so everybody who waits also looks again by himself after
`Wakeups.look_again_s` seconds, or after `COVERED_S` where something else hears of what other processes write: see
`cantle.store.listening` and `cantle.store.polling`. For hosts these look themselves, once for all who wait.
"""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

#: How long one who waits for a covered topic sleeps at most.
COVERED_S = 5.0

#: The same for hosts where nobody looks for all of them, as on SQLite: a hint that was lost costs a bind this long, still within its time.
COVERED_HOSTS_S = 30.0

#: Rung when something was written into the audit log. Other processes are not told: every unit that is lent would cost a statement and
#: wake them all, for the few who follow the log. Those look every `Wakeups.look_again_s` seconds.
AUDIT_TOPIC = "audit"

#: How many are rung at one moment when a process goes down gently.
_TOGETHER = 25

#: What topics of hosts begin with (`cantle.store.database.host_topic`).
_OF_HOSTS = "host/"


class Waiter:
    """One who waits. Hints that come while he is looking are not lost: the next `wait` returns at once.

    `overtaken` is true once another came who waits in his place: then he should answer with what he has. `has` is the generation that he
    knows of already; None where there is no such thing.
    """

    def __init__(self, wakeups: Wakeups, topic: str, has: int | None) -> None:
        self.overtaken = False
        self.has = has
        self._wakeups = wakeups
        self._topic = topic
        self._rung = threading.Event()

    def wait(self, seconds: float) -> bool:
        """Wait for a hint, at most that long, and not so long that one who gets no hints would be late. True when one came."""
        rung = self._rung.wait(max(0.0, min(seconds, self._wakeups.look_again(self._topic))))
        self._rung.clear()
        return rung

    def ring(self) -> None:
        """Give the hint."""
        self._rung.set()


class Wakeups:
    """Who waits for which topic, in this process. Topics are words such as ``host/compute-1`` and ``lease/<uuid>``.

    :param look_again_s: how long one waits at most without a hint; short where other processes write to the same database.
    :param begin: called once, when somebody waits for the first time.

    ``covered``: beginnings of the topics of which hints come from other processes too, at the moment. ``watched``: of those that somebody
    looks for, for all who wait: they need not look themselves.
    """

    def __init__(self, look_again_s: float, begin: Callable[[], None] = lambda: None) -> None:
        self.look_again_s = look_again_s
        self.covered: tuple[str, ...] = ()
        self.watched: tuple[str, ...] = ()
        self._begin: Callable[[], None] | None = begin
        self._lock = threading.Lock()
        self._waiters: dict[str, set[Waiter]] = defaultdict(set)
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether the process is going down: whoever waits should answer with what he has."""
        return self._stopped

    @contextmanager
    def waiter(self, topic: str, *, alone: bool = False, has: int | None = None) -> Iterator[Waiter]:
        """A waiter registered for that topic while the block runs.

        :param alone: whoever waits for the topic already is overtaken.
        :param has: see `Waiter`.
        """
        waiter = Waiter(self, topic, has)
        with self._lock:
            begin, self._begin = self._begin, None
            overtaken = list(self._waiters[topic]) if alone else []
            self._waiters[topic].add(waiter)
        if begin is not None:
            begin()
        for other in overtaken:
            other.overtaken = True
            other.ring()
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiters[topic].discard(waiter)
                if not self._waiters[topic]:
                    del self._waiters[topic]

    def look_again(self, topic: str) -> float:
        """How long one who waits for this topic sleeps at most."""
        if topic.startswith(self.watched):
            return math.inf
        if topic == AUDIT_TOPIC:
            return self.look_again_s
        seconds = COVERED_S if topic.startswith(self.covered) else self.look_again_s
        return COVERED_HOSTS_S if seconds >= COVERED_S and topic.startswith(_OF_HOSTS) else seconds

    def waited_for(self, beginning: str) -> list[str]:
        """The topics that begin so and that somebody waits for."""
        with self._lock:
            return [topic for topic in self._waiters if topic.startswith(beginning)]

    def lacks(self, topic: str, generation: int) -> bool:
        """Whether somebody waits for this topic who has another generation than this one."""
        with self._lock:
            return any(waiter.has != generation for waiter in self._waiters.get(topic, ()))

    def signal(self, topics: Iterable[str]) -> None:
        """Ring all who wait for one of the topics."""
        with self._lock:
            ringing = [waiter for topic in topics for waiter in self._waiters.get(topic, ())]
        for waiter in ringing:
            waiter.ring()

    def ring_unwatched(self) -> None:
        """Ring all for whom nobody looks: hints may have been lost."""
        self.signal([topic for topic in self.waited_for("") if not topic.startswith(self.watched)])

    def stop(self, *, per_second: float = math.inf) -> None:
        """Ring everybody and from now on say so in `stopped`. Parked requests end; nothing starts to wait again.

        :param per_second: ring no more than so many a second: thousands that are answered at one moment leave nothing to anybody else.
        """
        self._stopped = True
        topics = self.waited_for("")
        for begin in range(0, len(topics), _TOGETHER):
            if begin:
                time.sleep(_TOGETHER / per_second)
            self.signal(topics[begin : begin + _TOGETHER])


class Patience:
    """How long somebody may still wait.

    :param seconds: from now on.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())
