"""One look for all hosts that are waited for in a process: thousands of waiters that each looked for himself would be most of what waiting
costs.

Generations only grow, save when a database is restored, so nothing has changed while their sum has not: that is one small row. What is
compared are the generations of hosts as they are, never "what came after number n": a transaction that takes a lower number may be
committed later, and would be missed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, func, select

from cantle.store.prepared import LONGEST, Prepared
from cantle.store.tables import hosts
from cantle.store.types import Record
from cantle.store.wakeups import Wakeups

#: What topics of hosts begin with (`cantle.store.database.host_topic`).
OF_HOSTS = "host/"

#: Seconds after which all are compared though the sum is the same: in a database that was restored it may be, by accident.
WHOLE_S = 10.0

_SUMS: list[ColumnElement[Any]] = [func.count().label("hosts"), func.sum(hosts.c.generation).label("generations")]
_SUM = Prepared(select(*_SUMS))
_ALL = select(hosts.c.hostname, hosts.c.generation)
_EVERY = Prepared(_ALL)
_NAMED = Prepared(_ALL.where(hosts.c.hostname.in_(bindparam("names", expanding=True))), lists=("names",))


class Generations:
    """What was seen of hosts at the last look. For one thread."""

    def __init__(self) -> None:
        self._sum: tuple[object, object] | None = None
        self._whole_at = 0.0

    def look(self, connection: Connection, wakeups: Wakeups) -> list[str]:
        """The topics of hosts for which somebody waits who has another generation."""
        row = _SUM.first(connection, {})
        now = time.monotonic()
        if (row.hosts, row.generations) == self._sum and now < self._whole_at:
            return []
        # Who waits is asked after the sum was read: whoever comes later reads his own row later than that.
        waiting = wakeups.waited_for(OF_HOSTS)
        if len(waiting) > LONGEST:
            rows = _EVERY.all(connection, {})
        else:
            names = [topic.removeprefix(OF_HOSTS) for topic in waiting]
            rows = _NAMED.all(connection, {"names": names}) if names else []
        # Not before they were compared: what could not be is looked at with the next.
        self._sum, self._whole_at = (row.hosts, row.generations), now + WHOLE_S
        return changed(wakeups, rows)


def changed(wakeups: Wakeups, rows: Iterable[Record]) -> list[str]:
    """Of these hosts, ``hostname`` and ``generation`` of each, the topics of those for which somebody waits who has another."""
    return [topic for row in rows if wakeups.lacks(topic := OF_HOSTS + row.hostname, row.generation)]
