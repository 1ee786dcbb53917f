"""How long the server has not answered, and how long to leave it alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cantle.agent.backoff import Backoff
from cantle.errors import CantleError, HostError, Unavailable

#: Seconds after which it is worth a word that the server was away.
LONG = 300.0
#: Seconds between two tries at most, and at least half as many, of an agent that has news. 2,000 agents that all have some ask 270 times a
#: second, of which a server that is away notices nothing; one that comes back answers about as many.
WITH_NEWS = 10.0


@dataclass(frozen=True, slots=True)
class Pause:
    """How long to leave the server alone.

    :param seconds: until the next try.
    :param with_news: the same for an agent that has something to tell.
    """

    seconds: float
    with_news: float


class Away:
    """Of one agent's server.

    :param longest: seconds between two tries at most.
    :param first: seconds of the first pause at most.
    :param with_news: seconds between two tries at most while there is something to tell.
    """

    def __init__(
        self, clock: Callable[[], float], longest: float, *, first: float = 0.5, with_news: float = WITH_NEWS
    ) -> None:
        self._clock = clock
        self._backoff = Backoff(first, longest)
        self._news = Backoff(with_news, with_news)
        self._since: float | None = None

    def failed(self, error: CantleError) -> Pause:
        """A call has failed, or this host could not be read. News cut no pause short that the server asked for, nor one after a refusal:
        the same words would be refused again."""
        if isinstance(error, Unavailable) and self._since is None:
            self._since = self._clock()
        asked = error.details.get("retry_after")
        at_least = float(asked) if isinstance(asked, int) else 0.0
        seconds = self._backoff.next(at_least)
        if not isinstance(error, Unavailable | HostError):
            return Pause(seconds, seconds)
        return Pause(seconds, min(seconds, self._news.next(at_least)))

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
