"""Says in the log when a host falls silent or comes back.

Nothing else needs doing: whether a host is up is read off the time of its agent's last word wherever something would be lent there
(`cantle.store.host.UP`), so a silent host's devices are lent to nobody from that moment on, and nothing of it is deleted.
"""

from __future__ import annotations

import logging

from cantle.model.host import DOWN_AFTER_S
from cantle.store import host
from cantle.store.database import Database

LOG = logging.getLogger(__name__)


class HostWatch:
    """What was last known of each host. A keeper that has just started tells of those that are down already."""

    def __init__(self) -> None:
        self._up: dict[str, bool] = {}

    def look(self, db: Database) -> list[str]:
        """Compare with what is now; the hosts that changed."""
        with db.read() as connection:
            now = host.who_is_up(connection)
        changed = [name for name, up in sorted(now.items()) if up is not self._up.get(name, True)]
        for name in changed:
            if now[name]:
                LOG.warning("host %s is heard from again", name)
            else:
                LOG.warning(
                    "host %s is down: its agent was not heard from for %d s. Nothing is lent there until it is; what is lent stays lent",
                    name,
                    DOWN_AFTER_S,
                )
        self._up = now
        return changed
