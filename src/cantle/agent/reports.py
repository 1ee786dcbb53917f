"""When a host's report has to be sent. Not after every look: thousands of hosts that stay as they are would cost their server a report a
minute each.
"""

from __future__ import annotations

from collections.abc import Callable

from cantle.wire.inventory import InventoryAnswer, InventoryReport

#: Seconds after which a report is sent again though it says what the last one said: a server's database may have been restored.
AGAIN = 300.0

#: Seconds by which the host's time has jumped when that is news.
_JUMPED = 2.0


class Reports:
    """Those of one host.

    :param send: sends one to the server.
    :param clock: seconds that only go on, unlike the host's time.
    """

    def __init__(self, send: Callable[[InventoryReport], InventoryAnswer], clock: Callable[[], float]) -> None:
        self._send = send
        self._clock = clock
        self._known: str | None = None
        self._sent_at = 0.0
        self._time = 0.0

    def tell(self, report: InventoryReport) -> None:
        """Send a report unless the server has it.

        :raises CantleError: as :meth:`cantle.agent.client.Client.report`; then it is sent with the next look.
        """
        time = (report.clock or 0.0) - self._clock()
        old = self._clock() - self._sent_at >= AGAIN or abs(time - self._time) > _JUMPED
        if report.digest == self._known and not old:
            return
        self.doubt()
        answer = self._send(report)
        self._sent_at, self._time = self._clock(), time
        # What the server could not take in whole it takes for changed each time, until it can.
        self._known = None if answer.changed else report.digest

    def doubt(self) -> None:
        """The server may not know any more what it was told, or somebody else may speak for this host: the next one is sent."""
        self._known = None
