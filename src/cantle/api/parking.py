"""Places for requests that wait (long polls). Each holds a thread of the server, so there is a fixed number of them."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

#: Seconds a turned-away caller is told to wait: spread, so that a crowd does not come back at the same moment.
RETRY_AFTER = (1, 5)


#: How many of those who waited in a process that goes down are told to come back in one second, and within how many seconds all are.
BACK_PER_S = 100
BACK_WITHIN_S = 30


def spread(waited: int) -> int:
    """Seconds for a ``Retry-After`` header of a process that goes down and in which so many waited: what comes next has to serve all."""
    return random.randint(0, min(BACK_WITHIN_S, waited // BACK_PER_S))  # noqa: S311 (spread, not secrecy)


def retry_after() -> int:
    """Seconds for a ``Retry-After`` header, spread at random over :data:`RETRY_AFTER`."""
    return random.randint(*RETRY_AFTER)  # noqa: S311 (spread, not secrecy)


class Parking:
    """A fixed number of places, taken without waiting. ``most``: the highest number of them that were taken at a time."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._lock = threading.Lock()
        self._parked: Counter[object] = Counter()
        self.most = 0

    @contextmanager
    def place(self, who: object = None) -> Iterator[bool]:
        """Take a place for the block. Yields whether there was one; the block must not wait when there was none.

        :param who: he needs one place however often he comes: for callers whose newest call ends their earlier ones. None: nobody known.
        """
        who = object() if who is None else who
        with self._lock:
            taken = who in self._parked or len(self._parked) < self._places
            if taken:
                self._parked[who] += 1
                self.most = max(self.most, len(self._parked))
        try:
            yield taken
        finally:
            if taken:
                with self._lock:
                    self._parked[who] -= 1
                    if not self._parked[who]:
                        del self._parked[who]
