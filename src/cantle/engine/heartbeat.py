"""Signs of life of agents. They come all the time; they are written at most once a minute per host and process, and those of one second
together: thousands of hosts are one statement a second, not thirty transactions.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from cantle.store import host
from cantle.store.database import Database
from cantle.store.types import Record

EVERY_S = 60.0

#: Seconds for which signs of life are collected before they are written.
TOGETHER_S = 1.0

#: Difference, in seconds, between what is known of a host's clock and what it says now, from which on that is news.
_SKEW_IS_NEWS_S = 2.0


class _Signs:
    """Those of one database that this process has heard."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        #: By host, when its last one was written, or collected to be written.
        self.noted: dict[int, float] = {}
        self.collected: set[int] = set()


_lock = threading.Lock()
_signs: WeakKeyDictionary[Database, _Signs] = WeakKeyDictionary()


def _of(db: Database) -> _Signs:
    with _lock:
        return _signs.setdefault(db, _Signs())


class Batch:
    """What one who is about to wait has to do for all who were heard in the same second: write it down.

    :param mine: False where somebody else does.
    """

    def __init__(self, db: Database, *, mine: bool) -> None:
        self._db = db
        self._due = time.monotonic() + TOGETHER_S if mine else math.inf

    @property
    def left(self) -> float:
        """Seconds until he has to, never negative; infinity where he has not."""
        return max(0.0, self._due - time.monotonic())

    def write_if_due(self, *, at_once: bool = False) -> bool:
        """Write what was collected, if it is time; whether it was."""
        if self._due == math.inf or not (at_once or self.left == 0):
            return False
        self._due = math.inf
        _write(self._db)
        return True


@contextmanager
def heard(db: Database, row: Record) -> Iterator[Batch]:
    """An agent has spoken and is about to wait while the block runs. Whoever opens a batch writes it: `Batch.left` seconds later, and when
    his block ends at the latest. A host that was taken for down is written at once.

    :param row: the host's.
    """
    opens = _collect(_of(db), row.id, at_once=not row.up)
    batch = Batch(db, mine=opens or not row.up)
    batch.write_if_due(at_once=not row.up)
    try:
        yield batch
    finally:
        batch.write_if_due(at_once=True)


def reported(db: Database, row: Record, skew: float | None) -> None:
    """An agent has sent the report that is known already, and will soon say more. Its sign of life is written if that is due, or if it was
    taken for down; how far its clock is off, in seconds, if that is news.
    """
    news = skew is not None and abs(skew - (row.clock_skew_ms or 0) / 1000) > _SKEW_IS_NEWS_S
    silent = row.last_seen is None or (row.now - row.last_seen).total_seconds() >= EVERY_S
    if news or silent or not row.up:
        db.run(lambda connection: host.seen(connection, row.id, skew))
        written(db, row.id)


def written(db: Database, host_id: int) -> None:
    """One was just written."""
    signs = _of(db)
    with signs.lock:
        signs.noted[host_id] = time.monotonic()
        signs.collected.discard(host_id)


def _collect(signs: _Signs, host_id: int, *, at_once: bool) -> bool:
    """Whether the caller opens a batch."""
    now = time.monotonic()
    with signs.lock:
        last = signs.noted.get(host_id)
        if last is not None and now - last < EVERY_S and not at_once:
            return False
        signs.noted[host_id] = now
        signs.collected.add(host_id)
        return len(signs.collected) == 1


def _write(db: Database) -> None:
    signs = _of(db)
    with signs.lock:
        ids, signs.collected = sorted(signs.collected), set()
    if not ids:
        return
    try:
        late = len(ids) - db.run(lambda connection: host.seen_if_free(connection, ids))
        if late:
            db.run(lambda connection: host.seen_late(connection, ids))
    except BaseException:
        with signs.lock:
            for host_id in ids:  # they are due again when they are heard next
                signs.noted.pop(host_id, None)
        raise
