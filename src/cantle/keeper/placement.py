"""Publishes hosts in Placement: those that changed, those that were not looked at for long, and those that went wrong.

Which these are is read off the database at each round, so a keeper that starts, or one of several that dies, needs to know nothing. A
host is claimed (committed) before anything of it is read, and every write to the database asks whether the claim still holds.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from cantle.errors import CantleError, Unavailable
from cantle.keeper import placement_isolation
from cantle.keeper.placement_host import HostWork, Published, Settings, Work, wanted_of
from cantle.keeper.placement_shape import Pools
from cantle.keeper.placement_trouble import Troubles
from cantle.model import uuids
from cantle.model.host import DOWN_AFTER_S
from cantle.model.provider import Node, Record
from cantle.placement.exchange import ExchangeHeldUp
from cantle.placement.sync import Sync
from cantle.placement.tree import Outcome
from cantle.store import provider as store
from cantle.store import provider_pool, publication
from cantle.store.database import Database
from cantle.store.trouble import Trouble
from cantle.store.types import Record as Row

if TYPE_CHECKING:
    from cantle.placement.client import PlacementClient  # needs an extra; whoever has a client has it

LOG = logging.getLogger(__name__)

#: Between rounds: how soon a change is published.
EVERY_S = 2.0
#: Hosts of one round. What has changed meanwhile comes first in the next: a cloud that is published for the first time, which may take
#: minutes, holds up no card that fails.
AT_ONCE = 20
#: Between attempts while the database is away.
AWAY_S = 5.0
#: How long a claim lasts without being held anew; each write does. Longer than the longest call.
CLAIM_S = 120.0
#: Between looks at what others did to a host's tree; each time up to a tenth more or less, so that hosts spread.
LOOK_S = 600.0
#: Between looks at something that waits for somebody to let go.
WAIT_S = 60.0
#: Pauses after failures: the first is up to this long, each next up to twice as long, none longer than the last number.
FIRST_PAUSE_S = 4.0
LONGEST_PAUSE_S = 300.0


@dataclass(frozen=True, slots=True)
class Publishing:
    """What a `Publisher` is made of, as the configuration has it. The client is for one thread."""

    client: PlacementClient
    settings: Settings

    def publisher(
        self, db: Database, stop: threading.Event | None = None, beat: Callable[[], object] = lambda: None
    ) -> Publisher:
        """The publisher of this process."""
        return Publisher(db, self.client, self.settings, stop=stop or threading.Event(), beat=beat)


class LostClaim(CantleError):
    """Another keeper has the host (``claim-lost``): ours was too slow, and what it was about to write is the other's business now."""


@dataclass(slots=True)
class Claimed:
    """`cantle.placement.sync.Ledger` of one host, as long as the claim holds."""

    db: Database
    host_id: int
    keeper: str

    def take_root(self, root: Node) -> None:
        """Write down which provider is the host's.

        :raises Conflict: ``provider-of-other-host``.
        """
        self._write(lambda connection: store.take_root(connection, self.host_id, root))

    def keep(self, records: Sequence[Record]) -> None:
        """Write records."""
        self._write(lambda connection: store.keep(connection, self.host_id, records))

    def forget(self, gone: Sequence[str]) -> None:
        """Those providers are no more."""
        self._write(lambda connection: store.forget(connection, gone))

    def form(self, before: Pools, after: Pools) -> None:
        """Write down which cards are offered as one from now on, where that changes."""
        if before != after:
            self._write(lambda connection: provider_pool.replace(connection, self.host_id, after))

    def _write(self, work: Work) -> None:
        def guarded(connection: Connection) -> None:
            if not publication.hold(connection, self.host_id, self.keeper, CLAIM_S):
                raise LostClaim("claim-lost", f"Another keeper publishes host number {self.host_id}.")
            work(connection)

        self.db.run(guarded)


class Publisher:
    """Publishes until told to stop.

    :param stop: set it to end `run` after the host under way.
    :param beat: called whenever it goes on to the next thing.
    :param patient: for the first minutes, a host that seems down is left as it is: it may be we who were not there to hear it.
    """

    def __init__(
        self,
        db: Database,
        client: PlacementClient,
        settings: Settings,
        *,
        stop: threading.Event,
        patient: bool = True,
        beat: Callable[[], object] = lambda: None,
    ) -> None:
        self._db = db
        self._client = client
        self._settings = settings
        self._stop = stop
        self._beat = beat
        self._troubles = Troubles(LONGEST_PAUSE_S)
        self._patient_until = time.monotonic() + (DOWN_AFTER_S if patient else 0)

    def run(self) -> None:
        """Publish what is due, sleep, and so on. A database that is away is waited for."""
        pause, warned = 0.0, not self._settings.pool_identical
        trouble = Trouble(LOG, "placement: the database answers again")
        while not self._stop.wait(pause):
            self._beat()
            try:
                warned = warned or self._warn()
                pause = EVERY_S if self.round() == 0 else 0.0
                trouble.over()
            except Unavailable as error:
                trouble.met(f"placement: {error.code}: {error.message}")
                pause = AWAY_S

    def _warn(self) -> bool:
        """Say once what does not go together with pools."""
        with self._db.read() as connection:
            for words in placement_isolation.warnings(connection):
                LOG.warning("placement: %s", words)
        return True

    def round(self) -> int:
        """Some of what is due, what has changed before what is only to be looked at; how many hosts that were.

        :raises Unavailable: the database is away; what was done is remembered.
        """
        done = 0
        for host_id, hostname, stamp in self._due()[:AT_ONCE]:
            if self._stop.is_set():
                break
            self._beat()
            done += self.publish(host_id, hostname, stamp)
        return done

    def _due(self) -> list[tuple[int, str, str | None]]:
        with self._db.read() as connection:
            rows, left = publication.surveyed(connection)
        new = {row.id: row.hostname for row, _stamp in rows if row.host_id is None}
        if new:
            self._db.run(lambda connection: publication.enroll(connection, new))
        self._troubles.surveyed([*(row.code for row, _stamp in rows), *(row.code for row in left)])
        patient = time.monotonic() < self._patient_until
        rows.sort(key=lambda pair: (pair[0].stamp is None, pair[0].stamp == pair[1]))
        due = [
            (row.id, row.hostname, stamp)
            for row, stamp in rows
            if row.host_id is None or (row.open and (row.due or (row.stamp != stamp and not row.attempts)))
            if row.heard or not patient
        ]
        return due + [(row.host_id, row.hostname, None) for row in left if row.due]

    def publish_now(self, host_id: int, hostname: str) -> bool:
        """One attempt at one host, due or not, its tree read first; False when another keeper is at it.

        :raises Unavailable: the database is away.
        """
        with self._db.read() as connection:
            rows, _left = publication.surveyed(connection)
            enrolled = publication.state(connection, host_id) is not None
        if not enrolled:
            self._db.run(lambda connection: publication.enroll(connection, {host_id: hostname}))
        stamp = next((stamp for row, stamp in rows if row.id == host_id), None)
        return self.publish(host_id, hostname, stamp, look=True)

    def publish(self, host_id: int, hostname: str, stamp: str | None, *, look: bool = False) -> bool:
        """One attempt at one host; False when another keeper is at it. ``stamp`` is None for a host that is no more.

        :raises Unavailable: the database is away.
        """
        keeper = uuids.new()
        state = self._db.run(lambda connection: publication.claim(connection, host_id, keeper, CLAIM_S, LOOK_S * 0.9))
        if state is None:
            return False
        look = look or state.look_due or state.left_behind or state.attempts > 0
        claimed = Claimed(self._db, host_id, keeper)
        try:
            published = self._attempt(claimed, hostname, state, look=bool(look))
        except LostClaim as error:
            LOG.warning("placement: %s", error.message)
            return False
        except CantleError as error:
            if error.code.startswith("database-"):
                raise
            published = Published(Outcome(), looked=False, error=error)
        self._troubles.tried(hostname, state.code, published)
        self._finish(claimed, hostname, stamp, published, state.attempts)
        return True

    def _attempt(self, claimed: Claimed, hostname: str, state: Row, *, look: bool) -> Published:
        host = (self._db, claimed.host_id, hostname, state, self._settings)
        work = wanted_of(*host, look=look)
        try:
            outcome = self._sync(work, claimed)
        except ExchangeHeldUp as held_up:  # everything but the shape is brought up to date
            work = wanted_of(*host, look=look, keep_shape=True)
            outcome = self._sync(work, claimed)
            outcome.problems[hostname] = held_up.error
        return Published(outcome, looked=outcome.others is not None, leaving=work.leaving)

    def _sync(self, work: HostWork, claimed: Claimed) -> Outcome:
        """Publish, with the database's pools as they are at each moment.

        :raises ExchangeHeldUp: before anything was written.
        """
        outcome, formed = Outcome(), work.shape
        if work.tree.wanted:  # else whether Placement knows the host is nobody's concern
            outcome = Sync(self._client, work.tree, claimed).run(lambda: claimed.form(formed.before, formed.meanwhile))
        moving = {work.tree.wanted[uuid].name for uuid in formed.trade.providers if uuid in work.tree.wanted}
        if not moving & {*outcome.problems, *outcome.retiring}:
            claimed.form(formed.meanwhile, formed.wanted)
        return outcome

    def _finish(self, claimed: Claimed, hostname: str, stamp: str | None, published: Published, attempts: int) -> None:
        error, waiting = published.first_error, published.waiting
        if error is None and published.outcome.written:
            LOG.info("placement: host %s: %d changes written", hostname, published.outcome.written)

        def work(connection: Connection) -> None:
            if stamp is None and error is None and not waiting:
                publication.drop_host(connection, claimed.host_id)
                return
            publication.finish(
                connection,
                claimed.host_id,
                claimed.keeper,
                stamp=stamp,
                after_s=_pause(attempts + 1 if error else 0, waiting=bool(waiting)),
                looked=published.looked,
                attempts=attempts + 1 if error else 0,
                code=error.code if error else None,
                problem=published.problem,
                waiting=waiting,
                notes=published.notes,
            )

        self._db.run(work)


def _pause(attempts: int, *, waiting: bool) -> float:
    """Seconds until the next look without a change; spread by chance so that many do not come at once."""
    if attempts:
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 16))
        return random.uniform(longest / 2, longest)  # noqa: S311 - spreads the tries, guards nothing
    usual = WAIT_S if waiting else LOOK_S
    return random.uniform(usual * 0.9, usual * 1.1)  # noqa: S311
