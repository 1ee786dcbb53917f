"""Tells systemd again and again that a service is at work (``WatchdogSec=``, sd_watchdog_enabled(3)), for as long as each of its parts is.

A process that is stopped or starved tells nothing. Neither does one of whose parts one is stuck: systemd ends it and starts it anew, which
harms nothing, for every part may be killed at any time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from cantle.cli.notify import notify

#: Seconds that a part may be at one thing. The longest that is done on purpose takes a few minutes: a card that does not come back from its
#: reset is waited for by the kernel, for a minute each way it knows to reset it. A call for work waits for a minute.
LONGEST = 600.0
#: Calls that are named when a part is stuck, innermost last.
_CALLS = 8

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Beat:
    at: float
    thread: int


class Watchdog:
    """The parts of one process, and since when each is at what it does now.

    :param longest: seconds that a part may be at one thing.
    """

    def __init__(self, *, longest: float = LONGEST, clock: Callable[[], float] = time.monotonic) -> None:
        self._longest = longest
        self._clock = clock
        self._beats: dict[str, _Beat] = {}
        self._told: frozenset[str] = frozenset()

    def part(self, name: str) -> Callable[[], None]:
        """A part of the process: what this returns is called by it, in its own thread, whenever it goes on to the next thing."""

        def beat() -> None:
            self._beats[name] = _Beat(self._clock(), threading.get_ident())

        beat()
        return beat

    def stuck(self) -> frozenset[str]:
        """Names of the parts that have been at one thing for too long. What each is at is logged, once."""
        over = {name: beat for name, beat in self._beats.copy().items() if self._clock() - beat.at > self._longest}
        for name in over.keys() - self._told:
            _log.error(
                "the %s is stuck: for more than %.0f s it has been at %s; the service manager is told of no life until it goes on",
                name,
                self._longest,
                _place(over[name].thread),
            )
        self._told = frozenset(over)
        return self._told

    def start(self, stop: threading.Event) -> None:
        """Begin to tell, from a thread of its own and until ``stop``, if systemd asked this process to."""
        every = _interval()
        if every is not None:
            threading.Thread(target=self._run, args=[every, stop], name="watchdog", daemon=True).start()

    def _run(self, every: float, stop: threading.Event) -> None:
        while not stop.wait(every):
            if not self.stuck():
                with contextlib.suppress(OSError):  # systemd may be executing itself anew; the next one will do
                    notify("WATCHDOG=1")


def _interval() -> float | None:
    """Seconds between two messages: a third of what systemd waits for one."""
    asked, whom = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not asked.isdecimal() or not int(asked) or whom not in ("", str(os.getpid())):
        return None
    return int(asked) / 3e6


def _place(thread: int) -> str:
    """Where a thread is, as a line."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return "nothing: its thread has ended"
    calls = traceback.extract_stack(frame)[-_CALLS:]
    return " > ".join(f"{call.name} ({os.path.basename(call.filename)}:{call.lineno})" for call in calls)
