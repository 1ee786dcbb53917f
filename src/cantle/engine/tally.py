"""Where all units are: by host and class, each unit once."""

from __future__ import annotations

from cantle.model.tally import Tally
from cantle.store import tally as store
from cantle.store.database import Database


def count(db: Database, hostname: str | None = None) -> list[Tally]:
    """What became of every unit, by host and class.

    :param hostname: on this host only.
    """
    found: dict[tuple[str, str], dict[str, int]] = {}
    with db.read() as connection:
        for row in store.counted(connection, hostname):
            states = found.setdefault((row.hostname, row.resource_class), {})
            states[row.state] = states.get(row.state, 0) + int(row.units)
    return [Tally(host, name, **units) for (host, name), units in sorted(found.items())]
