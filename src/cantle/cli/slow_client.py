"""Clients that send too slowly, by mistake or on purpose: each holds a thread of the embedded server, of which there are few.

cheroot's own timeout is for one read, so whoever sends a byte now and then may hold a thread for as long as he likes. Here the whole of
a request's head, and the whole of its body, have a time; then nothing more is read of it, and it is answered as what has come so far.
(In front of the services apart it is nginx that waits for slow clients: docs/deploy/nginx.conf.)
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Any

#: Seconds for the request line and the headers, from their first byte on.
HEAD_S = 5.0
#: Seconds for a body. An agent's report of some megabytes takes less over any network that a cloud runs on.
BODY_S = 30.0
#: Seconds from one look at the clock to the next.
LOOK_S = 0.25


class Watch:
    """The clock of one server. `run` is a thread of its own."""

    def __init__(self) -> None:
        self._open: dict[object, tuple[float, socket.socket]] = {}
        self._over = threading.Event()

    def run(self) -> None:
        """Look after all that is being read, until `stop`."""
        while not self._over.wait(LOOK_S):
            now = time.monotonic()
            for reading, (deadline, connection) in list(self._open.items()):
                if now >= deadline and self._open.pop(reading, None) is not None:
                    with contextlib.suppress(OSError):  # it is closed already
                        # The plain socket's: a TLS socket's own would forget its keys, and the answer could not be sent.
                        socket.socket.shutdown(connection, socket.SHUT_RD)

    def stop(self) -> None:
        """End `run`."""
        self._over.set()

    def reading(self, connection: socket.socket, seconds: float) -> Reading:
        """For the time of a block, which should end within so many seconds."""
        return Reading(self._open, connection, seconds)


class Reading:
    """One block in which something is read."""

    __slots__ = ("_connection", "_open", "_seconds")

    def __init__(
        self, opened: dict[object, tuple[float, socket.socket]], connection: socket.socket, seconds: float
    ) -> None:
        self._open = opened
        self._connection = connection
        self._seconds = seconds

    def __enter__(self) -> None:
        self._open[self] = (time.monotonic() + self._seconds, self._connection)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.pop(self, None)


class TimedBody:
    """A request's body, each read of which has a time. All else is the body's own."""

    def __init__(self, body: Any, watch: Watch, connection: socket.socket) -> None:
        self._body = body
        self._watch = watch
        self._connection = connection

    def read(self, size: int | None = None) -> bytes:
        """As the body's."""
        with self._watch.reading(self._connection, BODY_S):
            part: bytes = self._body.read(size)
        return part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)
