"""The threads of a server, and the signals that end them."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

#: Seconds that a part gets to end when the server stops.
DRAIN = 5.0


class Parts:
    """The threads of the server. One that ends by an exception ends the whole: a server that is half there helps nobody.

    The main thread waits for a bell, a socket, and not for the event: waiting for an event, it would sleep through a signal that comes
    in the moment before it falls asleep, or that the kernel delivers to another thread; and a handler that sets the event would wait
    for ever if it interrupted this thread while that has the event's lock.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()
        #: Whether a signal asked for the end.
        self.asked = False
        self._bell, self._rope = socket.socketpair()
        self._rope.setblocking(False)  # as signal.set_wakeup_fd needs it
        self._threads: list[threading.Thread] = []
        self._fault: BaseException | None = None

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Run ``work`` in a thread of this name."""

        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - handed to the main thread, which ends the process with it
                self._fault = self._fault or error
                with contextlib.suppress(OSError):  # it rings already, or nobody listens any more
                    self._rope.send(b"\0")

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def wait(self) -> None:
        """Return when it is time to stop, with ``stop`` set. Raises what a thread ended with."""
        self._bell.recv(1)
        self.stop.set()
        if self._fault is not None:
            raise self._fault

    def join(self, seconds: float = DRAIN) -> None:
        """Give every thread a moment to end."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT end the waiting once, also one that came before it; a second one ends the process at once.

        Leave it last of all: only in it does Ctrl-C not break into what is done to end.
        """
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

        def asked(_number: int, _frame: object) -> None:
            self.asked = True
            for number in before:
                signal.signal(number, signal.SIG_DFL)

        heard = signal.set_wakeup_fd(self._rope.fileno(), warn_on_full_buffer=False)
        for number in before:
            signal.signal(number, asked)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(heard)
            self._bell.close()
            self._rope.close()
