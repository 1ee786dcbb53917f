"""How long to leave a server alone that does not answer."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """Doubling waits with jitter, so that a thousand agents do not come back at the same moment.

    :param first: seconds of the first wait at most; each later one at most twice the one before, up to ``longest``.
    """

    def __init__(self, first: float = 0.5, longest: float = 60.0, spread: Callable[[], float] = random.random) -> None:
        self._first = first
        self._longest = longest
        self._spread = spread
        self._ceiling = first

    @property
    def ceiling(self) -> float:
        """Seconds of the next wait at most."""
        return self._ceiling

    def next(self, at_least: float = 0.0) -> float:
        """Seconds to wait now: between half of the ceiling and all of it; never less than what the server asked for, and up to a second
        more, since it counts in whole ones."""
        seconds = self._ceiling * (0.5 + self._spread() / 2)
        self._ceiling = min(self._longest, self._ceiling * 2)
        return max(seconds, at_least + self._spread() if at_least else 0.0)

    def reset(self) -> None:
        """It answered."""
        self._ceiling = self._first
