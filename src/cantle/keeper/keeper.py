"""The keeper: what must happen without anybody asking. Any number may run on one database.

It sleeps between rounds and does each sweep in its own transactions. Outbox delivery joins here with the events.
"""

from __future__ import annotations

import logging
import threading
import time

from cantle.errors import Unavailable
from cantle.keeper import deadline, expiry
from cantle.store.database import Database

LOG = logging.getLogger(__name__)

#: Between rounds.
EVERY_S = 1.0
#: Between attempts while the database is away.
AWAY_S = 5.0
#: Between rounds of housekeeping that nobody waits for.
HOUSEKEEPING_S = 3600.0


class Keeper:
    """Sweeps until told to stop.

    :param stop: set it to end `run` within a moment; a round under way is finished.
    :param every: seconds between rounds.
    """

    def __init__(self, db: Database, *, stop: threading.Event, every: float = EVERY_S) -> None:
        self._db = db
        self._stop = stop
        self._every = every
        self._housekeeping_due = 0.0

    def run(self) -> None:
        """Sweep, sleep, and so on. A database that is away is waited for."""
        pause = 0.0
        while not self._stop.wait(pause):
            try:
                self.round()
                pause = self._every
            except Unavailable as error:
                LOG.warning("keeper: %s: %s", error.code, error.message)
                pause = AWAY_S

    def round(self) -> None:
        """Everything that is due, once.

        :raises Unavailable: the database is away; nothing is half-done.
        """
        ended = deadline.sweep(self._db)
        if ended:
            LOG.warning("keeper: %d binds ended: their hosts did not answer in time", ended)
        given_back = expiry.sweep(self._db)
        if given_back:
            LOG.info("keeper: %d leases expired and were given back", given_back)
        if time.monotonic() >= self._housekeeping_due:
            expiry.forget_owners(self._db)
            self._housekeeping_due = time.monotonic() + HOUSEKEEPING_S
