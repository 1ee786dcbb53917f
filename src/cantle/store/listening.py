"""PostgreSQL: wake-ups by LISTEN and NOTIFY. NOTIFY is sent inside the transaction, so it rings if and when that is committed.

One connection and one thread per process listen, from the first time that somebody waits. It needs a connection of its own for as long
as the process lives: behind PgBouncer in transaction mode nothing is heard, and waiters look again every `COVERED_S` seconds; for those
who wait for hosts, this thread looks.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import selectors
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, String, bindparam, func, select

from cantle.errors import CantleError
from cantle.model import uuids
from cantle.store.generations import OF_HOSTS, Generations
from cantle.store.prepared import Prepared
from cantle.store.trouble import Trouble
from cantle.store.wakeups import Wakeups

if TYPE_CHECKING:
    import psycopg

LOG = logging.getLogger(__name__)

CHANNEL = "cantle"
#: PostgreSQL takes payloads of up to 8000 bytes.
_LONGEST = 7000
_NOTIFY = Prepared(select(func.pg_notify(CHANNEL, bindparam("payload", type_=String()))))
#: Seconds between looks at all hosts that are waited for, should a wake-up be lost; while nothing is heard.
_LOOK_S = 5.0
_DEAF_LOOK_S = 0.25
#: Seconds between attempts to connect again, at most.
_PAUSE_S = 2.0
#: A network that drops idle connections in silence is noticed within about a minute.
_KEEPALIVE = {"keepalives": 1, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


class Listening:
    """Ears on PostgreSQL.

    :param arguments: for ``psycopg.connect``.
    :param look: opens a connection for queries that each see a moment of their own.
    """

    def __init__(self, arguments: dict[str, Any], look: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._arguments = {"connect_timeout": 10, "application_name": "cantle-listen", **_KEEPALIVE, **arguments}
        #: What is ours in what we hear: our own waiters were rung already.
        self._sender = uuids.new()
        self._open = look
        self._generations = Generations()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopped_fd = self._wake_fd = -1
        self._hearing = Trouble(LOG, "wake-ups of other processes are heard again")
        self._seeing = Trouble(LOG, "changes of other processes are seen again")

    def start(self, wakeups: Wakeups) -> None:
        """Listen in a thread of its own."""
        self._stopped_fd, self._wake_fd = os.pipe()
        self._thread = threading.Thread(target=self._run, args=(wakeups,), name="wake-ups", daemon=True)
        self._thread.start()

    def tell(self, connection: Connection, topics: Iterable[str]) -> None:
        """NOTIFY, in as few messages as the topics fit in."""
        for payload in _packed(sorted(topics)):
            _NOTIFY.all(connection, {"payload": f"{self._sender} {payload}"})

    def stop(self) -> None:
        """End the thread and close the connection."""
        self._stop.set()
        if self._thread is not None:
            # The thread may have ended already: the pipe's other end is not its own to close.
            os.write(self._wake_fd, b"x")
            self._thread.join(10)
            if not self._thread.is_alive():  # else it hangs in a connect, and looks at the pipe before it ends
                os.close(self._wake_fd)
                os.close(self._stopped_fd)
            self._thread = None

    def _run(self, wakeups: Wakeups) -> None:
        import psycopg  # noqa: PLC0415 - an extra, and only PostgreSQL has it

        while not self._stop.is_set():
            try:
                with psycopg.connect(**self._arguments, autocommit=True) as connection:
                    self._listen(connection, wakeups)
            except psycopg.Error as error:
                first = str(error).partition("\n")[0]
                self._hearing.met(f"wake-ups of other processes are not heard for now: {first}")
            wakeups.covered = ()
            wakeups.ring_unwatched()  # they look more often from now on
            self._look_until(wakeups, random.uniform(_PAUSE_S / 4, _PAUSE_S))  # noqa: S311 - spreads the tries, guards nothing

    def _listen(self, connection: psycopg.Connection[Any], wakeups: Wakeups) -> None:
        connection.execute(f"LISTEN {CHANNEL}")
        self._hearing.over()
        self._look(wakeups)  # what was said before we listened; whoever comes after this looks while we listen already
        wakeups.ring_unwatched()
        wakeups.covered = ("",)
        with contextlib.closing(selectors.DefaultSelector()) as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(self._stopped_fd, selectors.EVENT_READ)
            look_at = time.monotonic() + _LOOK_S
            while not self._stop.is_set():
                selector.select(max(0.0, look_at - time.monotonic()))
                if time.monotonic() >= look_at:
                    self._look(wakeups)
                    look_at = time.monotonic() + _LOOK_S
                for heard in connection.notifies(timeout=0):
                    sender, _, topics = heard.payload.partition(" ")
                    if sender != self._sender:
                        wakeups.signal(topics.split("\n"))

    def _look_until(self, wakeups: Wakeups, seconds: float) -> None:
        """For so long, look at the hosts that are waited for, often: nothing is heard."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._stop.wait(_DEAF_LOOK_S):
            self._look(wakeups)

    def _look(self, wakeups: Wakeups) -> None:
        """Ring those who wait for a host that has changed."""
        try:
            with self._open() as connection:
                topics = self._generations.look(connection, wakeups)
        except CantleError as error:
            self._seeing.met(f"changes of other processes are not seen for now: {error}")
            return
        self._seeing.over()
        wakeups.watched = (OF_HOSTS,)
        wakeups.signal(topics)


def _packed(topics: Iterable[str]) -> Iterator[str]:
    """Topics, one a line, in texts that are short enough. No topic has a line break: host names and uuids have none."""
    packed: list[str] = []
    size = 0
    for topic in topics:
        length = len(topic.encode()) + 1
        if packed and size + length > _LONGEST:
            yield "\n".join(packed)
            packed, size = [], 0
        packed.append(topic)
        size += length
    if packed:
        yield "\n".join(packed)
