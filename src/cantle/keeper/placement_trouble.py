"""What a keeper says of trouble in its log: of Placement's once for all hosts, of a host's own once for that host, and when it is over.

Hosts are tried again for as long as it lasts, by any of several keepers; each keeper ends only what it told itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from cantle.errors import CantleError, Unavailable
from cantle.keeper.placement_host import Published
from cantle.store.trouble import Trouble

LOG = logging.getLogger(__name__)

#: What a host has that could not be published since Placement, or the way there, was in trouble.
AWAY = "placement-away"


class Troubles:
    """What one keeper told and did not take back yet. For one thread.

    :param longest_pause_s: how long it may take until a host is tried again.
    """

    def __init__(self, longest_pause_s: float) -> None:
        minutes = round(longest_pause_s / 60)
        over = f"placement: Placement answers again; what waits for it is written within {minutes} minutes"
        self._placement = Trouble(LOG, over)
        self._hosts: dict[str, Trouble] = {}

    def surveyed(self, codes: Iterable[str | None]) -> None:
        """What every host has now: when none waits for Placement any more it is back, whichever keeper found out."""
        if AWAY not in codes:
            self._placement.over()

    def tried(self, hostname: str, before: str | None, published: Published) -> None:
        """What came of an attempt at a host.

        :param before: the code of what went wrong the time before; None if nothing did.
        """
        ended_by = published.error
        if isinstance(ended_by, Unavailable):
            self._placement.met(f"placement: {ended_by.code}: {ended_by.message}", kind=_kind(ended_by))
            return
        if before == AWAY:  # one that went well all the time, since nothing of it is written, shows nothing
            self._placement.over()
        error = published.first_error
        if before is None:
            self._hosts.pop(hostname, None)  # another keeper brought it in order since
        if error is not None:
            own = self._hosts.setdefault(hostname, Trouble(LOG, f"placement: host {hostname} is published again"))
            own.met(f"placement: host {hostname}: {error.code}: {published.problem}")
        elif hostname in self._hosts:
            self._hosts.pop(hostname).over()


def _kind(error: CantleError) -> str:
    """The same for each request that fails like this; messages name the request."""
    return f"{error.code} {error.details.get('answer')}"
