"""The keeper: what must happen without anybody asking. Any number may run on one database.

It sleeps between rounds and does each sweep in its own transactions. Events go out beside it, in a thread for each receiver
(`cantle.keeper.courier`): one that is slow holds up nothing else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from cantle.engine import choice, relatives
from cantle.errors import Unavailable
from cantle.keeper import deadline, expiry, housekeeping
from cantle.keeper.host_watch import HostWatch
from cantle.keeper.housekeeping import Ages
from cantle.store.database import Database
from cantle.store.trouble import Trouble

LOG = logging.getLogger(__name__)

#: Between rounds.
EVERY_S = 1.0
#: Between attempts while the database is away.
AWAY_S = 5.0
#: Between looks at which hosts are up.
LOOK_S = 10.0
#: Between rounds of housekeeping that nobody waits for.
HOUSEKEEPING_S = 3600.0
#: Between countings of what hosts have free, where something else than a lease took or gave back units.
COUNT_S = 60.0


class Keeper:
    """Sweeps until told to stop.

    :param stop: set it to end `run` within a moment; a round under way is finished.
    :param every: seconds between rounds.
    :param ages: how long things are kept.
    :param beat: called whenever it goes on to the next thing.
    """

    def __init__(
        self,
        db: Database,
        *,
        stop: threading.Event,
        every: float = EVERY_S,
        ages: Ages = Ages(),  # noqa: B008 - frozen
        beat: Callable[[], object] = lambda: None,
    ) -> None:
        self._db = db
        self._stop = stop
        self._every = every
        self._ages = ages
        self._beat = beat
        self._hosts = HostWatch()
        self._housekeeping_due = 0.0
        self._look_due = 0.0
        self._count_due = 0.0

    def run(self) -> None:
        """Sweep, sleep, and so on. A database that is away is waited for."""
        pause = 0.0
        trouble = Trouble(LOG, "keeper: the database answers again")
        while not self._stop.wait(pause):
            self._beat()
            try:
                self.round()
                pause = self._every
                trouble.over()
            except Unavailable as error:
                trouble.met(f"keeper: {error.code}: {error.message}")
                pause = AWAY_S

    def round(self) -> None:
        """Everything that is due, once.

        :raises Unavailable: the database is away; nothing is half-done.
        """
        ended = deadline.sweep(self._db)
        if ended:
            LOG.warning("keeper: %d binds ended: their hosts did not answer in time", ended)
        given_back = expiry.sweep(self._db, warning=self._ages.expiry_warning)
        if given_back:
            LOG.info("keeper: the time of %d leases was over", given_back)
        if time.monotonic() >= self._look_due:
            self._hosts.look(self._db)
            self._look_due = time.monotonic() + LOOK_S
        if time.monotonic() >= self._count_due:
            choice.repair(self._db)
            self._count_due = time.monotonic() + COUNT_S
        if time.monotonic() >= self._housekeeping_due:
            relatives.repair(self._db)
            housekeeping.sweep(self._db, self._ages)
            self._housekeeping_due = time.monotonic() + HOUSEKEEPING_S
