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
#: Seconds after which it is said once more that it is still so.
REPEATED = 3600.0


@dataclass(frozen=True, slots=True)
class Pause:
    """How long to leave the server alone.

    :param seconds: until the next try.
    :param with_news: the same for an agent that has something to tell.
    :param says: what there is to say of it, in words; "" where the pauses grow no more, and that and why was said less than an hour ago.
    """

    seconds: float
    with_news: float
    says: str


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
        self._longest = longest
        self._since: float | None = None
        #: What was said last, and when.
        self._said: tuple[str, float] | None = None
        self._said_at = 0.0

    def failed(self, error: CantleError) -> Pause:
        """A call has failed, or this host could not be read. News cut no pause short that the server asked for, nor one after a refusal:
        the same words would be refused again."""
        if isinstance(error, Unavailable) and self._since is None:
            self._since = self._clock()
        asked = error.details.get("retry_after")
        at_least = float(asked) if isinstance(asked, int) else 0.0
        ceiling = self._backoff.ceiling
        seconds = self._backoff.next(at_least)
        with_news = min(seconds, self._news.next(at_least)) if isinstance(error, Unavailable | HostError) else seconds
        return Pause(seconds, with_news, self._says(error, ceiling, seconds))

    def _says(self, error: CantleError, ceiling: float, seconds: float) -> str:
        now = self._clock()
        if self._said == (error.code, ceiling) and now - self._said_at < REPEATED:
            return ""
        self._said, self._said_at = (error.code, ceiling), now
        further = (
            f"; from now on every {ceiling:g} s at most, which is said once an hour" if ceiling == self._longest else ""
        )
        return f"{error} ({error.code}); next try in {seconds:.1f} s{further}"

    @property
    def trouble(self) -> str | None:
        """The code of the failure that was said last, if nothing has gone well since."""
        return self._said[0] if self._said is not None else None

    def is_back(self) -> str | None:
        """It answers. What there is to say, if it was away for long."""
        self._backoff.reset()
        self._said = None
        if self._since is None:
            return None
        seconds, self._since = self._clock() - self._since, None
        if seconds < LONG:
            return None
        return (
            f"the server did not answer for {round(seconds / 60)} minutes; what was lent stayed lent and was kept ready, "
            "and what was asked for meanwhile has been done since"
        )
