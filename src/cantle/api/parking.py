"""Places for requests that wait (long polls). Each holds a thread of the server, so there is a fixed number of them."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: Seconds a turned-away caller is told to wait: spread, so that a crowd does not come back at the same moment.
RETRY_AFTER = (1, 5)


def retry_after() -> int:
    """Seconds for a ``Retry-After`` header, spread at random over :data:`RETRY_AFTER`."""
    return random.randint(*RETRY_AFTER)  # noqa: S311 (spread, not secrecy)


class Parking:
    """A fixed number of places, taken without waiting."""

    def __init__(self, places: int) -> None:
        self._free = threading.Semaphore(places)

    @contextmanager
    def place(self) -> Iterator[bool]:
        """Take a place for the block. Yields whether there was one; the block must not wait when there was none."""
        taken = self._free.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._free.release()
