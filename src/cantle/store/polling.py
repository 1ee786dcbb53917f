"""MariaDB has no wake-ups: one thread per process looks for all who wait in it, often while anything is being bound, else now and then.

What it compares are the generations of hosts as they are, never "what came after number n": a transaction that takes a lower number may
be committed later, and would be missed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from sqlalchemy import Connection, bindparam, exists, func, select

from cantle.errors import CantleError
from cantle.store.faults import LookAgain
from cantle.store.tables import arqs, hosts, outbox
from cantle.store.wakeups import Wakeups

LOG = logging.getLogger(__name__)

#: Seconds between looks while a bind is on the way somewhere, and otherwise.
BUSY_S = 0.01
IDLE_S = 0.25
#: After a failure of the database.
AWAY_S = 2.0

_HOST = "host/"
_GENERATIONS = select(hosts.c.hostname, hosts.c.generation).where(
    hosts.c.hostname.in_(bindparam("names", expanding=True))
)
_BUSY = select(
    exists(select(arqs.c.id).where(arqs.c.deadline.is_not(None))), select(func.max(outbox.c.id)).scalar_subquery()
)


class Polling:
    """Ears on MariaDB.

    :param read: opens a reading transaction.
    """

    def __init__(self, read: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._read = read
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._generations: dict[str, int] = {}
        self._last_event: int | None = None

    def start(self, wakeups: Wakeups) -> None:
        """Poll in a thread of its own."""
        self._thread = threading.Thread(target=self._run, args=(wakeups,), name="wake-ups", daemon=True)
        self._thread.start()

    def tell(self, connection: Connection, topics: Iterable[str]) -> None:
        """Others see it in the tables."""

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(10)
            self._thread = None

    def _run(self, wakeups: Wakeups) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            try:
                pause = BUSY_S if self.look(wakeups) else IDLE_S
                wakeups.covered = (_HOST,)
            except (CantleError, LookAgain) as error:
                LOG.warning("wake-ups of other processes are not seen for now: %s", error)
                wakeups.covered = ()
                pause = AWAY_S

    def look(self, wakeups: Wakeups) -> bool:
        """Look once and ring whom it concerns; whether a bind is on the way.

        :raises Unavailable: the database is away.
        """
        names = [topic.removeprefix(_HOST) for topic in wakeups.waited_for(_HOST)]
        with self._read() as connection:
            busy, last_event = connection.execute(_BUSY).one()
            now = {row.hostname: row.generation for row in connection.execute(_GENERATIONS, {"names": names})}
        topics = [_HOST + name for name, number in now.items() if self._generations.get(name) != number]
        if last_event != self._last_event:
            topics += wakeups.waited_for("outbox/")
        if busy:
            topics += wakeups.waited_for("lease/")
        self._generations, self._last_event = now, last_event
        wakeups.signal(topics)
        return bool(busy)
