"""MariaDB has no wake-ups: one thread per process looks for all who wait in it. While anything is being bound, and a little longer, for
the next bind of a boot or of a burst comes soon, it looks often at the hosts of open binds; at all hosts that are waited for now and then
(`cantle.store.generations`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from sqlalchemy import Connection, func, select

from cantle.errors import CantleError
from cantle.store.generations import OF_HOSTS, Generations, changed
from cantle.store.prepared import Prepared
from cantle.store.tables import arqs, claims, hosts, outbox
from cantle.store.trouble import Trouble
from cantle.store.wakeups import Wakeups

LOG = logging.getLogger(__name__)

#: Seconds between looks while a bind is on the way somewhere, and until so long after; otherwise: the first bind after a pause waits for
#: that. Between looks at all hosts.
BUSY_S = 0.01
LINGER_S = 1.0
IDLE_S = 0.05
ALL_S = 0.25
#: After a failure of the database.
AWAY_S = 2.0

_BINDING = Prepared(
    select(hosts.c.hostname, hosts.c.generation)
    .select_from(arqs.join(claims, claims.c.arq_id == arqs.c.id).join(hosts, hosts.c.id == claims.c.host_id))
    .where(arqs.c.deadline.is_not(None))
    .distinct()
)
_LAST_EVENT = Prepared(select(func.max(outbox.c.id).label("number")))


class Polling:
    """Ears on MariaDB.

    :param look: opens a connection for queries that each see a moment of their own.
    """

    def __init__(self, look: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._look = look
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._generations = Generations()
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
        pause = all_at = idle_at = 0.0
        trouble = Trouble(LOG, "wake-ups of other processes are seen again")
        while not self._stop.wait(pause):
            now = time.monotonic()
            try:
                if self.look(wakeups, at_all=now >= all_at):
                    idle_at = now + LINGER_S
                if now >= all_at:
                    all_at = now + ALL_S
                pause = BUSY_S if now < idle_at else IDLE_S
                wakeups.watched = (OF_HOSTS,)
                trouble.over()
            except CantleError as error:
                trouble.met(f"wake-ups of other processes are not seen for now: {error}")
                pause = AWAY_S

    def look(self, wakeups: Wakeups, *, at_all: bool = True) -> bool:
        """Look once and ring whom it concerns; whether a bind is on the way.

        :param at_all: at all hosts that are waited for, not only at those of open binds.
        :raises Unavailable: the database is away.
        """
        couriers = wakeups.waited_for("outbox/")
        with self._look() as connection:
            rows = _BINDING.all(connection, {})
            last_event = _LAST_EVENT.first(connection, {}).number if couriers else None
            topics = self._generations.look(connection, wakeups) if at_all else []
        topics += changed(wakeups, rows)
        if last_event != self._last_event:
            topics += couriers
        if rows:
            topics += wakeups.waited_for("lease/")
        self._last_event = last_event
        wakeups.signal(topics)
        return bool(rows)
