"""How long the server has not answered, and how long to leave it alone."""

from __future__ import annotations

from collections.abc import Callable

from cantle.agent.backoff import Backoff
from cantle.errors import CantleError, Unavailable

#: Seconds after which it is worth a word that the server was away.
LONG = 300.0


class Away:
    """Of one agent's server.

    :param longest: seconds between two tries at most.
    """

    def __init__(self, clock: Callable[[], float], longest: float) -> None:
        self._clock = clock
        self._backoff = Backoff(longest=longest)
        self._since: float | None = None

    def failed(self, error: CantleError) -> float:
        """A call has failed; seconds until the next try."""
        if isinstance(error, Unavailable) and self._since is None:
            self._since = self._clock()
        asked = error.details.get("retry_after")
        return self._backoff.next(float(asked) if isinstance(asked, int) else 0.0)

    def is_back(self) -> str | None:
        """It answers. What there is to say, if it was away for long."""
        self._backoff.reset()
        if self._since is None:
            return None
        seconds, self._since = self._clock() - self._since, None
        if seconds < LONG:
            return None
        return (
            f"the server did not answer for {round(seconds / 60)} minutes; what was lent stayed lent and was kept ready, "
            "and what was asked for meanwhile has been done since"
        )
