"""What a person should know of a host and its agent while it lasts: part of every report, shown with the host."""

from __future__ import annotations

from collections.abc import Callable

from cantle.wire.inventory import Condition

FROZEN = "host-frozen"
UNWRITABLE = "agent-state-unwritable"
AWAY = "server-was-away"
FOREIGN = "foreign-mdevs"
LEFT = "units-left-behind"


class Conditions:
    """Those of one host. One for each code; setting it again replaces its message.

    :param clock: seconds; for those that end by themselves.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._messages: dict[str, str] = {}
        self._until: dict[str, float] = {}

    def set(self, code: str, message: str | None, *, seconds: float | None = None) -> bool:
        """It holds from now on; with ``message`` None it holds no more. Whether that is news.

        :param seconds: it ends by itself after so long.
        """
        news = self._messages.get(code) != message
        self._until.pop(code, None)
        if message is None:
            self._messages.pop(code, None)
        else:
            self._messages[code] = message
            if seconds is not None:
                self._until[code] = self._clock() + seconds
        return news

    def __contains__(self, code: str) -> bool:
        return code in self._messages

    def message(self, code: str) -> str:
        """That of one that holds; "" of one that does not."""
        return self._messages.get(code, "")

    def told(self) -> tuple[Condition, ...]:
        """All that hold, by code."""
        for code, until in list(self._until.items()):
            if self._clock() >= until:
                self.set(code, None)
        return tuple(Condition(code, self._messages[code]) for code in sorted(self._messages))
