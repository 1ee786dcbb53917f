"""Following the audit log: each record once to one who stays, at least once to one who comes back.

Numbers are given when a record is written, and seen when its transaction is committed: a slower one with a lower number may come after.
So each look goes back over what was written lately, and what was shown is remembered.
"""

from __future__ import annotations

from cantle.model import uuids
from cantle.model.audit import Record
from cantle.store import audit as store
from cantle.store.database import Database
from cantle.store.wakeups import AUDIT_TOPIC, Patience

#: A transaction takes no longer than so many seconds between its record and its commit, and no more records than this overtake it.
REACH_S = 60.0
REACH = 1000
#: Records of one look.
AT_ONCE = 500


class Follower:
    """One who follows.

    :param after: uuid of the last record he has; None: he wants what happens from now on. One that is not kept any more: all there is.
    """

    def __init__(self, db: Database, after: str | None = None) -> None:
        self._db = db
        #: How far the next look goes back. Who comes back has to look for what came late since he left, however long ago that was.
        self._reach_s = REACH_S
        with db.read() as connection:
            if after is None:
                self._last = store.last(connection)
                earlier = store.after(connection, self._last, reach=REACH, seconds=REACH_S, most=REACH)
                self._seen = {one.id for one in earlier} | {self._last}
            else:
                self._last, age = store.place(connection, uuids.canonical(after) or "") or (0, 0.0)
                self._reach_s += age
                self._seen = {self._last}

    def look(self) -> list[Record]:
        """What is new, oldest first; may be nothing."""
        with self._db.read() as connection:
            found = store.after(connection, self._last, reach=REACH, seconds=self._reach_s, most=REACH + AT_ONCE)
        fresh = [one for one in found if one.id not in self._seen][:AT_ONCE]
        if len(fresh) < AT_ONCE:
            self._reach_s = REACH_S
        self._seen.update(one.id for one in fresh)
        self._last = max([self._last, *(one.id for one in fresh)])
        self._seen = {number for number in self._seen if number > self._last - REACH}
        return fresh

    def wait(self, seconds: float) -> list[Record]:
        """What is new, as soon as there is something, at the latest after so many seconds."""
        patience = Patience(seconds)
        with self._db.wakeups.waiter(AUDIT_TOPIC) as waiter:
            while True:
                found = self.look()
                if found or patience.left == 0 or self._db.wakeups.stopped:
                    return found
                waiter.wait(patience.left)
