"""The threads of a server, and the signals that end them."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator

#: Seconds that a part gets to end when the server stops.
DRAIN = 5.0


class Parts:
    """The threads of the server. One that ends by an exception ends the whole: a server that is half there helps nobody."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._fault: BaseException | None = None

    def start(self, name: str, work: Callable[[], None]) -> None:
        """Run ``work`` in a thread of this name."""

        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - handed to the main thread, which ends the process with it
                self._fault = self._fault or error
                self.stop.set()

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def wait(self) -> None:
        """Return when it is time to stop. Raises what a thread ended with."""
        self.stop.wait()
        if self._fault is not None:
            raise self._fault

    def join(self, seconds: float = DRAIN) -> None:
        """Give every thread a moment to end."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT stop the server once; a second one ends the process at once."""
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

        def asked(number: int, _frame: object) -> None:
            self.stop.set()
            signal.signal(number, signal.SIG_DFL)

        for number in before:
            signal.signal(number, asked)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
