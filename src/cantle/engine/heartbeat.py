"""Signs of life of agents. They come all the time; they are written at most once a minute per host and process."""

from __future__ import annotations

import threading
import time
from weakref import WeakKeyDictionary

from cantle.store import host
from cantle.store.database import Database

EVERY_S = 60.0

_lock = threading.Lock()
_written: WeakKeyDictionary[Database, dict[int, float]] = WeakKeyDictionary()


def due(db: Database, host_id: int) -> bool:
    """Whether this process has not written a sign of life of that host for a minute."""
    with _lock:
        last = _written.get(db, {}).get(host_id)
    return last is None or time.monotonic() - last >= EVERY_S


def written(db: Database, host_id: int) -> None:
    """One was just written."""
    with _lock:
        _written.setdefault(db, {})[host_id] = time.monotonic()


def heard(db: Database, host_id: int, skew: float | None = None) -> None:
    """An agent has spoken: write it down if that is due, with how far its clock is off, in seconds, if that was told."""
    if due(db, host_id):
        db.run(lambda connection: host.seen(connection, host_id, skew))
        written(db, host_id)
