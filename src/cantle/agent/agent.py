"""The agent of one host: restore, report, then converge to the desired state for ever.

Level-triggered: each round looks at the host as it is and at the whole desired state, so a lost call, a restart or a reboot needs no
special case. Nothing is remembered about what was sent that could not be found out again.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from cantle.agent import converge, discover
from cantle.agent.backoff import Backoff
from cantle.agent.client import Client
from cantle.agent.converge import Observed
from cantle.agent.desired import Desired, DesiredFile
from cantle.agent.hands import Hands
from cantle.agent.intent import Intents
from cantle.agent.look import Looks
from cantle.drivers import loader
from cantle.errors import CantleError, Conflict, HostError, Unavailable
from cantle.kernel.pci_ids import PciIds
from cantle.kernel.root import Root
from cantle.kernel.udev import Watch
from cantle.model.device import Health
from cantle.model.enabled_types import EnabledTypes
from cantle.wire.inventory import InventoryReport
from cantle.wire.work import HandleResult, Outcome, Results, Work

#: Seconds between two looks when nothing calls for one; also how long one call waits for work.
RESCAN = 60.0
#: Seconds after the start in which a card that offers nothing is looked at again and again: its driver may still be starting.
SETTLING = 60.0
_AGAIN = 1.0
#: Seconds from a change of our own to the look at it.
_AFTER_WORK = 1.0
#: The server will not have this agent any more: going on would be wrong.
_FENCED = frozenset({"agent-fenced", "protocol-mismatch"})
#: The server does not know this life of the agent yet.
_UNKNOWN = frozenset({"host-not-found", "report-first"})

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Restored:
    """What a start without the server came to.

    :param intents: wishes that were looked at.
    :param units: lent units that were looked at.
    :param failures: one line for each that is not as it should be.
    """

    intents: int = 0
    units: int = 0
    failures: tuple[str, ...] = ()


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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hostname = hostname
        self._root = root
        self._enabled = enabled_types
        self._stop = stop
        self._rescan = rescan
        self._clock = clock
        self._client = Client(server_url, hostname, token, tls)
        self._file = DesiredFile(state_dir)
        self._hands = Hands(root, self._file, Desired(), stop.wait)
        self._intents = Intents(root, self._hands, enabled_types, clock, rescan)
        self._looks = Looks(root, clock)
        self._start = str(uuid.uuid4())
        self._drivers, self._driver_problems = loader.load()
        self._names = PciIds(root)
        self._changed = threading.Event()
        self._ended = threading.Event()
        self._began = clock()
        self._look_at = 0.0
        self._retry = Backoff(1.0, rescan)
        self._retry_at: float | None = None
        #: The desired state acted upon last; None until the server was heard in this life.
        self._work: Work | None = None
        #: Outcomes the server has taken, by uuid, and those it has yet to hear.
        self._told: dict[str, HandleResult] = {}
        self._untold: list[HandleResult] = []

    def run(self) -> None:
        """Work until ``stop`` is set.

        :raises Conflict: ``agent-already-running`` on this host; ``agent-fenced`` or ``protocol-mismatch`` when the server will not have
            this agent any more.
        :raises HostError: ``agent-state-unreadable``, ``agent-state-unwritable`` at the start.
        """
        with self._file.held():
            self._hands.memory = self._file.load()
            self._file.save(self._hands.memory)  # find out now, not in the middle of a bind, that the disk is full
            self._restore()
            for target in (self._end_waiting, self._watch):
                threading.Thread(target=target, name=f"{self._hostname}: {target.__name__}", daemon=True).start()
            try:
                self._loop()
            finally:
                self._ended.set()
                self._client.disconnect()

    def look_again(self) -> None:
        """Let the agent look at its host now: something changed. Safe from any thread."""
        self._changed.set()
        self._client.interrupt()

    def _end_waiting(self) -> None:
        self._stop.wait()
        self._client.close()

    def _watch(self) -> None:
        for _ in Watch(self._root, self._ended):
            self.look_again()

    def restore(self) -> Restored:
        """Bring every card to what is wanted of it and make ready again what was lent, by what the disk says and without the server, then
        return: for the boot, before anything that would use the cards is started.

        :raises Conflict: ``agent-already-running``.
        :raises HostError: ``agent-state-unreadable``, ``agent-state-unwritable``; what else cannot be read.
        """
        with self._file.held():
            self._hands.memory = self._file.load()
            work = self._hands.memory.work
            if work is None:
                return Restored()
            self._intents.apply(work)
            results = self._hands.perform(converge.plan(work, self._observe(work), restore=True))
            failed = [f"{one.uuid}: {one.message}" for one in results if one.outcome is Outcome.FAILED]
            late = [f"{device}: {message}" for device, (_, message) in self._intents.unready.items()]
            wishes = sum(wish.mode is not None for wish in work.intents)
            return Restored(wishes, len(results), (*late, *failed))

    def _restore(self) -> None:
        """The same at the start of a life, before anything is reported. What fails is tried again."""
        work = self._hands.memory.work
        if work is None:
            return
        try:
            self._intents.apply(work)
            observed = self._observe(work)
        except CantleError as error:
            _log.error("what was lent cannot be restored now: %s", error)
            return
        results = self._hands.perform(converge.plan(work, observed, restore=True))
        failed = [result for result in results if result.outcome is Outcome.FAILED]
        _log.info("%d lent units are ready, %d are not", len(results) - len(failed), len(failed))

    def _observe(self, work: Work) -> Observed:
        memory = self._hands.memory
        return converge.observe(
            self._root,
            work,
            memory.taken,
            kept=self._intents.kept,
            adopted=memory.adopted,
            unready=self._intents.unready,
        )

    def _loop(self) -> None:
        away = Backoff(longest=self._rescan)
        while not self._stop.is_set():
            try:
                self._round()
                away.reset()
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
        if error.code in _UNKNOWN:
            self._look_at = 0.0
        asked = error.details.get("retry_after")
        seconds = away.next(float(asked) if isinstance(asked, int) else 0.0)
        level = logging.WARNING if isinstance(error, Unavailable) else logging.ERROR
        _log.log(level, "%s: %s (%s); next try in %.1f s", self._hostname, error, error.code, seconds)
        self._stop.wait(seconds)

    def _round(self) -> None:
        """Look and report if it is time; then wait for work, and do what there is to do."""
        changed = self._changed.is_set()
        self._changed.clear()
        if changed:
            self._looks.forget()
        if changed or self._clock() >= self._look_at:
            report = self._look()
            self._client.report(report)
            self._look_at = self._next_look(report)
        due = min(self._look_at, self._retry_at if self._retry_at is not None else self._look_at)
        if changed:
            due = self._clock()  # a lent unit may have gone, or come back with its card
        known = self._work
        if known is None:
            work = self._client.work()
        elif self._untold:
            work = known  # tell those first
        else:
            work = self._client.work(known.generation, max(0.0, due - self._clock()))
        if known is None or work.generation != known.generation:
            self._remember(work)
            self._work = work
            self._told.clear()
            if known is None or work.intents != known.intents:
                self._intents.apply(work)
                self._look_at = 0.0
            self._converge(work)
        elif self._untold or self._clock() >= due:
            self._converge(work)

    def _remember(self, work: Work) -> None:
        """On the disk before anything is done. Where that fails, whoever waits for a new unit is told so."""
        try:
            self._hands.remember(work)
        except HostError as error:
            before = self._hands.memory.work or Work(0)
            old = {handle.uuid for handle in before.wanted}
            failed = [
                HandleResult(handle.uuid, Outcome.FAILED, error.code, error.message)
                for handle in work.wanted
                if handle.uuid not in old
            ]
            self._client.results(Results(self._start, work.generation, tuple(failed)))
            raise

    def _look(self) -> InventoryReport:
        """The host as it is, after every card has been brought to what is wanted of it as far as it goes."""
        work = self._work or self._hands.memory.work or Work(0)
        self._intents.apply(work)
        if self._enabled.adopt:
            self._looks.forget()  # who holds a mediated device is in no file that could be compared
        lent = (work.wanted, work.unwanted)
        basis = (lent, self._intents.standings, self._hands.memory.taken, self._hands.memory.adopted)
        return self._looks.report(basis, lambda: self._whole_look(work))

    def _whole_look(self, work: Work) -> InventoryReport:
        ours = {handle.uuid: handle for handle in (*work.unwanted, *work.wanted)}
        memory = self._hands.memory
        view, problems = discover.look(
            self._hostname,
            self._root,
            self._enabled,
            ours,
            self._names,
            wishes=self._intents.in_force,
            known=memory.known,
        )
        known = [*self._driver_problems, *problems]
        report = discover.report(view, self._drivers, known, self._start, self._intents.told)
        self._hands.note(
            discover.remember(memory.known, report.devices), discover.adopted(view, memory.adopted, report.devices)
        )
        return report

    def _next_look(self, report: InventoryReport) -> float:
        now = self._clock()
        due = [now + self._rescan]
        if self._intents.retry_at is not None:
            due.append(self._intents.retry_at)
        waiting = any(one.health is Health.DEGRADED and not one.deployables for one in report.devices)
        if waiting and now < self._began + SETTLING:
            due.append(now + _AGAIN)
        return min(due)

    def _converge(self, work: Work) -> None:
        """Do what there is to do, and tell what is new. A failed unit is tried again: its guest may end, its card come back."""
        tasks = converge.plan(work, self._observe(work))
        results = self._hands.perform(tasks)
        if any(task.step is not None for task in tasks):
            self._look_soon()
        if any(result.outcome is Outcome.FAILED for result in results):
            self._retry_at = self._clock() + self._retry.next()
        else:
            self._retry_at = None
            self._retry.reset()
        self._untold = [result for result in results if self._told.get(result.uuid) != result]
        if self._untold:
            self._client.results(Results(self._start, work.generation, tuple(self._untold)))
            self._told.update((result.uuid, result) for result in self._untold)
            self._untold = []
        gone = {uuid for uuid, result in self._told.items() if result.outcome is Outcome.ABSENT}
        if any(handle.uuid in gone for handle in work.unwanted):  # the server has them back: they are not ours any more
            left = tuple(handle for handle in work.unwanted if handle.uuid not in gone)
            self._work = msgspec.structs.replace(work, unwanted=left)
            self._look_soon()

    def _look_soon(self) -> None:
        """Look at what our own work has changed. Not at once: whoever waits for the next unit comes first, and a burst needs one look."""
        self._look_at = min(self._look_at, self._clock() + _AFTER_WORK)
