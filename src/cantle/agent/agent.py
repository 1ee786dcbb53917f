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
from cantle.agent.away import Away, Pause
from cantle.agent.backoff import Backoff
from cantle.agent.client import Client
from cantle.agent.entering import for_domain
from cantle.agent.local import Local
from cantle.agent.passes import Restored
from cantle.agent.reports import Reports
from cantle.agent.signals import Signals
from cantle.agent.starting import Starting
from cantle.agent.telling import Telling
from cantle.agent.upkeep import Upkeep
from cantle.attach.domain_events import DomainEvents
from cantle.errors import BadConfig, CantleError, Conflict, Unavailable
from cantle.kernel.root import Root
from cantle.kernel.udev import Watch
from cantle.model.device import Health
from cantle.model.enabled_types import EnabledTypes
from cantle.wire.inventory import InventoryReport
from cantle.wire.work import HandleResult, Outcome, Work

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
#: Seconds for which it is said that the server was away for long.
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
    :param beat: called whenever the agent goes on to the next thing: another round, another change of its host.
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
        beat: Callable[[], object] = lambda: None,
    ) -> None:
        self._hostname = hostname
        self._root = root
        self._stop = stop
        self._rescan = rescan
        self._clock = clock
        self._beat = beat
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
        self._telling = Telling(hostname, self._client, self._upkeep, self._reports)
        self._upkeep.when_cleaning(self._telling.cleaning)
        self._upkeep.when_changing(beat)
        self._upkeep.when_guest_done(self.settle_again)
        self._signals = Signals()
        #: The last look at the guests found out about all of them.
        self._seen = True
        self._ended = threading.Event()
        self._domain_events = DomainEvents(root, lambda: any(map(for_domain, self._upkeep.wanted)), self._ended)
        self._starting = Starting(root, self._upkeep, self.look_again, self._ended)
        self._local = Local(root, local_socket, self._starting.answer) if local_socket is not None else None
        self._listens = False
        #: Set when the first look was told to the server, or could not be, and at the end of `run`.
        self.begun = threading.Event()
        self._began = clock()
        self._look_at = 0.0
        self._retry = Backoff(1.0, rescan)
        self._retry_at: float | None = None
        self._away = Away(clock, rescan)

    def run(self) -> None:
        """Work until ``stop`` is set.

        :raises Conflict: ``agent-already-running`` on this host; ``agent-fenced`` or ``protocol-mismatch`` when the server will not have
            this agent any more.
        :raises BadConfig: ``agent-token-missing``, ``client-certificate-needed``: the server wants one, and this agent has nothing to show.
        :raises HostError: ``agent-state-unreadable`` at the start; ``agent-state-unwritable`` when there can be no state directory.
        """
        try:
            self._run()
        finally:
            self.begun.set()

    def _run(self) -> None:
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
        self._signals.tell_of_host()
        self._client.interrupt()

    def settle_again(self) -> None:
        """Let the agent look at its guests now, and do what there is to do: something happened to one. Safe from any thread."""
        self._signals.tell_of_guests()
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
        self._signals.end_wait()
        self._client.close()

    def _watch(self) -> None:
        for _ in Watch(self._root, self._ended):
            self.look_again()

    def _watch_domains(self) -> None:
        for event in self._domain_events:
            _log.debug("%s: %s", self._hostname, event or "what happens to domains is heard from now on")
            self.settle_again()

    def _loop(self) -> None:
        while not self._stop.is_set():
            self._beat()
            try:
                self._round()
                if self._away.trouble is not None:
                    _log.warning("%s goes on: %s is over", self._hostname, self._away.trouble)
                if message := self._away.is_back():
                    self._upkeep.server_was_away(message, _SAID_FOR)
                    self._look_at = 0.0
            except Conflict as error:
                if error.code in _FENCED:
                    _log.error("this agent of %s stops: %s", self._hostname, error)
                    raise
                self._pause(error)
            except BadConfig:
                raise
            except CantleError as error:
                self._pause(error)

    def _pause(self, error: CantleError) -> None:
        """After a failed round, whatever it was about is done again from the beginning: leave the server alone for a while."""
        self.begun.set()
        if self._stop.is_set() or error.code == "wait-interrupted":
            return
        self._reports.doubt()
        if error.code in _UNKNOWN:
            self._look_at = 0.0
        pause = self._away.failed(error)
        away = isinstance(error, Unavailable)
        if pause.says:
            _log.log(logging.WARNING if away else logging.ERROR, "%s: %s", self._hostname, pause.says)
        self._see_to_host(pause, keep_ready=away)

    def _see_to_host(self, pause: Pause, *, keep_ready: bool) -> None:
        """What is done meanwhile, at first and at each signal: all that needs no server. What was seen is news for it."""
        began = self._clock()
        look = True
        while not self._stop.is_set():
            self._beat()
            heard = [self._hear_of_host(), self._signals.of_guests()]
            if look or any(heard):
                look = False
                if keep_ready:
                    self._upkeep.keep_ready()
                if self._signals.owed:
                    self._seen = self._upkeep.look_at_guests()
            has_news = self._signals.owed or self._telling.is_late
            left = began + (pause.with_news if has_news else pause.seconds) - self._clock()
            if left <= 0:
                return
            self._signals.wait(min(left, self._rescan))

    def _hear_of_host(self) -> bool:
        if not self._signals.of_host():
            return False
        self._upkeep.look_at_everything()
        self._look_at = 0.0
        return True

    def _round(self) -> None:
        """Look and report if it is time; then wait for work, and do what there is to do."""
        self._hear_of_host()
        if self._clock() >= self._look_at:
            report = self._upkeep.look()
            self._reports.tell(report)
            self.begun.set()
            self._look_at = self._next_look(report)
        self._signals.of_guests()  # what it asks for is owed until it is done, whatever fails between
        due = min(self._look_at, self._retry_at if self._retry_at is not None else self._look_at)
        work = self._next_work(self._clock() if self._signals.owed else due)
        if work is not None and work.generation != self._telling.generation:
            self._take_up(work)  # a look that is owed comes with the next round
        elif self._telling.is_late or self._signals.owed or self._clock() >= due:
            self._signals.owed = True
            self._seen = self._upkeep.look_at_guests()
            self._converge()
            self._signals.owed = False

    def _next_work(self, due: float) -> Work | None:
        """What the server wants, waited for until ``due``; None while there is something to be told first."""
        if self._telling.generation is None:
            return self._client.work()
        if self._telling.is_late:
            return None
        asked_at = self._clock()
        work = self._client.later_work(self._telling.generation, max(0.0, due - asked_at))
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
        self._telling.forget()
        if frozen is not None:
            self._retry_at = None
            self._look_soon(0.0)
            new = self._upkeep.new_units(work)
            self._telling.refuse(
                work.generation, (HandleResult(one.uuid, Outcome.FAILED, conditions.FROZEN, frozen) for one in new)
            )
            self._telling.generation = work.generation
            return
        self._telling.generation = work.generation
        if known is None:
            self._seen = self._upkeep.look_at_guests()
        if known is None or work.intents != known.intents:
            self._look_soon(0.0)
        owed, self._signals.owed = self._signals.owed, True  # what fails is done again with the next try
        self._converge()
        self._signals.owed = owed

    def _converge(self) -> None:
        """Do what there is to do, and tell what is new. A failed unit is tried again, since its guest may end or its card come back; so is
        a look at guests that could not be looked at."""
        done = self._upkeep.settle()
        if done.worked:
            self._look_soon()
        if done.failed or not self._seen:
            self._retry_at = self._clock() + self._retry.next()
        else:
            self._retry_at = None
            self._retry.reset()
        self._telling.tell(done.results)
        if self._upkeep.let_go(self._telling.gone):
            self._look_soon()

    def _look_soon(self, seconds: float = _AFTER_WORK) -> None:
        """Look at what our own work has changed. Not at once: whoever waits for the next unit comes first, and a burst needs one look."""
        self._look_at = min(self._look_at, self._clock() + seconds)
