"""The agent of one host: restore, report, then converge to the desired state for ever.

Level-triggered: each round looks at the host as it is and at the whole desired state, so a lost call, a restart or a reboot needs no
special case. Nothing is remembered about what was sent that could not be found out again. What it does on the host is in
:mod:`cantle.agent.upkeep`; this is its talk with the server.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
from collections.abc import Callable

from cantle.agent import conditions
from cantle.agent.backoff import Backoff
from cantle.agent.client import Client
from cantle.agent.entering import for_domain
from cantle.agent.local import Local
from cantle.agent.passes import Restored
from cantle.agent.reports import Reports
from cantle.agent.starting import Starting
from cantle.agent.upkeep import Upkeep
from cantle.attach.domain_events import DomainEvents
from cantle.errors import CantleError, Conflict, Unavailable
from cantle.kernel.root import Root
from cantle.kernel.udev import Watch
from cantle.model.device import Health
from cantle.model.enabled_types import EnabledTypes
from cantle.wire.inventory import InventoryReport
from cantle.wire.work import HandleResult, Outcome, Results, Work

__all__ = ["RESCAN", "Agent", "Restored"]

#: Seconds between two looks when nothing calls for one; also how long one call waits for work.
RESCAN = 60.0
#: Seconds after the start in which a card that offers nothing is looked at again and again: its driver may still be starting.
SETTLING = 60.0
_AGAIN = 1.0
#: Seconds from a change of our own to the look at it.
_AFTER_WORK = 1.0
#: An answer that says nothing new and comes sooner than after so many seconds was none of waiting.
_AT_ONCE = 1.0
#: Seconds after which it is worth a word that the server was away, and for how long that is said.
_LONG_AWAY = 300.0
_SAID_FOR = 3600.0
#: The server will not have this agent any more: going on would be wrong.
_FENCED = frozenset({"agent-fenced", "protocol-mismatch"})
#: The server does not know this life of the agent yet.
_UNKNOWN = frozenset({"host-not-found", "report-first"})

_log = logging.getLogger(__name__)


class Agent:
    """See the module.

    :param hostname: the name the host goes by on the server.
    :param root: the host's kernel.
    :param server_url: of the agents' listener.
    :param state_dir: the agent's own directory, kept over reboots.
    :param stop: set it from anywhere: :meth:`run` returns soon, also out of a waiting call. What was lent stays lent.
    :param token: the bearer token of the agents' listener.
    :param tls: whom to trust and what to show of oneself; None: whom the system trusts.
    :param rescan: seconds between two looks.
    :param local_socket: where hooks of guests ask, below the root; None: nowhere.
    :param wall: the host's time, which is told and decides nothing; all that does goes by ``clock``.
    :raises BadConfig: ``agent-server-url``.
    """

    def __init__(
        self,
        *,
        hostname: str,
        root: Root,
        server_url: str,
        state_dir: str | os.PathLike[str],
        enabled_types: EnabledTypes,
        stop: threading.Event,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        rescan: float = RESCAN,
        local_socket: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._hostname = hostname
        self._root = root
        self._stop = stop
        self._rescan = rescan
        self._clock = clock
        self._client = Client(server_url, hostname, token, tls)
        self._reports = Reports(self._client.report, clock)
        self._upkeep = Upkeep(
            hostname=hostname,
            root=root,
            state_dir=state_dir,
            enabled_types=enabled_types,
            clock=clock,
            wall=wall,
            rescan=rescan,
            pause=stop.wait,
        )
        self._upkeep.when_cleaning(self._tell_cleaning)
        self._upkeep.when_guest_done(self.settle_again)
        self._changed = threading.Event()
        self._guests_changed = threading.Event()
        self._ended = threading.Event()
        self._domain_events = DomainEvents(root, lambda: any(map(for_domain, self._upkeep.wanted)), self._ended)
        self._starting = Starting(root, self._upkeep, self.look_again, self._ended)
        self._local = Local(root, local_socket, self._starting.answer) if local_socket is not None else None
        self._listens = False
        self._began = clock()
        self._look_at = 0.0
        self._retry = Backoff(1.0, rescan)
        self._retry_at: float | None = None
        self._away_since: float | None = None
        #: The generation that the server named last; None until it was heard in this life.
        self._heard: int | None = None
        #: Outcomes the server has taken, by uuid, and those it has yet to hear.
        self._told: dict[str, HandleResult] = {}
        self._untold: list[HandleResult] = []

    def run(self) -> None:
        """Work until ``stop`` is set.

        :raises Conflict: ``agent-already-running`` on this host; ``agent-fenced`` or ``protocol-mismatch`` when the server will not have
            this agent any more.
        :raises HostError: ``agent-state-unreadable`` at the start; ``agent-state-unwritable`` when there can be no state directory.
        """
        with self._upkeep.held():
            self._upkeep.begin()
            self._listen()
            for target in (self._end_waiting, self._watch, self._watch_domains):
                threading.Thread(target=target, name=f"{self._hostname}: {target.__name__}", daemon=True).start()
            try:
                self._loop()
            finally:
                self._ended.set()
                self._domain_events.end()
                if self._local is not None:
                    self._local.stop()
                self._client.disconnect()

    def _listen(self) -> None:
        self._listens = self._local is not None and self._local.start()
        self._note()

    def _note(self) -> None:
        if self._listens:
            self._starting.note(self._upkeep.memory.work)

    def look_again(self) -> None:
        """Let the agent look at its host now: something changed. Safe from any thread."""
        self._changed.set()
        self._client.interrupt()

    def settle_again(self) -> None:
        """Let the agent look at its guests now, and do what there is to do: something happened to one. Safe from any thread."""
        self._guests_changed.set()
        self._client.interrupt()

    def restore(self) -> Restored:
        """Bring every card to what is wanted of it and make ready again what was lent, by what the disk says and without the server, then
        return: for the boot, before anything that would use the cards is started.

        :raises Conflict: ``agent-already-running``.
        :raises HostError: ``agent-state-unreadable``, ``agent-state-unwritable``; what else cannot be read.
        """
        with self._upkeep.held():
            restored = self._upkeep.restore()
            if self._local is not None:
                self._starting.note(self._upkeep.memory.work)
            return restored

    def _end_waiting(self) -> None:
        self._stop.wait()
        self._client.close()

    def _watch(self) -> None:
        for _ in Watch(self._root, self._ended):
            self.look_again()

    def _watch_domains(self) -> None:
        for event in self._domain_events:
            _log.debug("%s: %s", self._hostname, event or "what happens to domains is heard from now on")
            self.settle_again()

    def _loop(self) -> None:
        away = Backoff(longest=self._rescan)
        while not self._stop.is_set():
            try:
                self._round()
                away.reset()
                self._is_back()
            except Conflict as error:
                if error.code in _FENCED:
                    _log.error("this agent of %s stops: %s", self._hostname, error)
                    raise
                self._pause(error, away)
            except CantleError as error:
                self._pause(error, away)

    def _pause(self, error: CantleError, away: Backoff) -> None:
        """After a failed round: whatever it was about is done again from the beginning."""
        if self._stop.is_set() or error.code == "wait-interrupted":
            return
        self._reports.doubt()
        if error.code in _UNKNOWN:
            self._look_at = 0.0
        if isinstance(error, Unavailable):
            self._away_since = self._clock() if self._away_since is None else self._away_since
            self._upkeep.keep_ready()
        asked = error.details.get("retry_after")
        seconds = away.next(float(asked) if isinstance(asked, int) else 0.0)
        level = logging.WARNING if isinstance(error, Unavailable) else logging.ERROR
        _log.log(level, "%s: %s (%s); next try in %.1f s", self._hostname, error, error.code, seconds)
        self._stop.wait(seconds)

    def _is_back(self) -> None:
        """Say it when the server was away for long."""
        if self._away_since is None:
            return
        seconds, self._away_since = self._clock() - self._away_since, None
        if seconds >= _LONG_AWAY:
            message = (
                f"the server did not answer for {round(seconds / 60)} minutes; what was lent stayed lent and was kept ready, "
                "and what was asked for meanwhile has been done since"
            )
            self._upkeep.server_was_away(message, _SAID_FOR)
            self._look_at = 0.0

    def _round(self) -> None:
        """Look and report if it is time; then wait for work, and do what there is to do."""
        changed = self._changed.is_set()
        self._changed.clear()
        if changed:
            self._upkeep.look_at_everything()
        if changed or self._clock() >= self._look_at:
            report = self._upkeep.look()
            self._reports.tell(report)
            self._look_at = self._next_look(report)
        due = min(self._look_at, self._retry_at if self._retry_at is not None else self._look_at)
        if changed or self._guests_changed.is_set():
            due = self._clock()  # a lent unit may have gone, or come back with its card or its guest
        self._guests_changed.clear()
        work = self._next_work(due)
        if work is not None and work.generation != self._heard:
            self._take_up(work)
        elif self._untold or self._clock() >= due:
            self._upkeep.look_at_guests()
            self._converge()

    def _next_work(self, due: float) -> Work | None:
        """What the server wants, waited for until ``due``; None while there is something to be told first."""
        if self._heard is None:
            return self._client.work()
        if self._untold:
            return None
        asked_at = self._clock()
        work = self._client.later_work(self._heard, max(0.0, due - asked_at))
        if work is None and self._clock() < min(asked_at + _AT_ONCE, due):
            # Somebody waits in our place: let the server decide at once who speaks for this host.
            self._reports.doubt()
            self._look_soon(0.0)
        return work

    def _next_look(self, report: InventoryReport) -> float:
        now = self._clock()
        due = [now + self._rescan]
        if self._upkeep.retry_at is not None:
            due.append(self._upkeep.retry_at)
        waiting = any(one.health is Health.DEGRADED and not one.deployables for one in report.devices)
        if waiting and now < self._began + SETTLING:
            due.append(now + _AGAIN)
        return min(due)

    def _take_up(self, work: Work) -> None:
        """Do what is wanted now; of a host that is frozen, say that it is not done."""
        known = self._upkeep.work
        self._reports.doubt()
        frozen = self._upkeep.follow(work)
        self._note()
        self._told.clear()
        self._untold = []
        if frozen is not None:
            self._retry_at = None
            self._look_soon(0.0)
            refused = [
                HandleResult(one.uuid, Outcome.FAILED, conditions.FROZEN, frozen)
                for one in self._upkeep.new_units(work)
            ]
            if refused:
                self._client.results(Results(self._upkeep.start, work.generation, tuple(refused)))
            self._heard = work.generation
            return
        self._heard = work.generation
        if known is None:
            self._upkeep.look_at_guests()
        if known is None or work.intents != known.intents:
            self._look_soon(0.0)
        self._converge()

    def _converge(self) -> None:
        """Do what there is to do, and tell what is new. A failed unit is tried again: its guest may end, its card come back."""
        done = self._upkeep.settle()
        if done.worked:
            self._look_soon()
        if done.failed:
            self._retry_at = self._clock() + self._retry.next()
        else:
            self._retry_at = None
            self._retry.reset()
        self._tell(done.results)
        if self._upkeep.let_go({uuid for uuid, result in self._told.items() if result.outcome is Outcome.ABSENT}):
            self._look_soon()

    def _tell(self, results: list[HandleResult]) -> None:
        self._untold = [result for result in results if self._told.get(result.uuid) != result]
        if self._untold and self._heard is not None:
            self._upkeep.hand_over(results)
            self._reports.doubt()
            self._client.results(Results(self._upkeep.start, self._heard, tuple(self._untold)))
            self._told.update((result.uuid, result) for result in self._untold)
            self._untold = []

    def _tell_cleaning(self, uuid: str) -> None:
        """Say that nobody holds a unit any more, before what may take a while. Where that fails, the result will say it too."""
        if self._heard is None:
            return
        try:
            self._client.results(Results(self._upkeep.start, self._heard, (HandleResult(uuid, Outcome.CLEANING),)))
        except CantleError as error:
            _log.warning("%s: the server could not be told that %s is being cleaned: %s", self._hostname, uuid, error)

    def _look_soon(self, seconds: float = _AFTER_WORK) -> None:
        """Look at what our own work has changed. Not at once: whoever waits for the next unit comes first, and a burst needs one look."""
        self._look_at = min(self._look_at, self._clock() + seconds)
