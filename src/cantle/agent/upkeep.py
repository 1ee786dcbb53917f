"""What an agent does on its host: look, follow a desired state, keep ready what is lent, remember. It needs no server for any of it.

Level-triggered: each pass compares the host as it is with the whole desired state, so a restart or a reboot needs no special case.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager

import msgspec

from cantle.agent import conditions, converge, discover, following, guests
from cantle.agent.alone import Alone, alone
from cantle.agent.conditions import Conditions
from cantle.agent.converge import Observed
from cantle.agent.desired import Desired, DesiredFile
from cantle.agent.guests import Remark
from cantle.agent.handed import Handed
from cantle.agent.hands import Hands
from cantle.agent.identity import Identity
from cantle.agent.intent import Intents
from cantle.agent.look import Looks
from cantle.agent.memory import Memory
from cantle.agent.passes import Pass, Restored
from cantle.attach.domains import domains
from cantle.drivers import loader
from cantle.errors import CantleError
from cantle.kernel.pci_ids import PciIds
from cantle.kernel.root import Root
from cantle.model.enabled_types import EnabledTypes
from cantle.wire.inventory import InventoryReport
from cantle.wire.work import HandleResult, Outcome, WantedHandle, Work

_log = logging.getLogger(__name__)


class Upkeep(Alone):
    """See the module. Parameters as of :class:`cantle.agent.agent.Agent`. Threads may share it: one works on the host at a time.

    :param pause: sleeps for so many seconds, less when it is time to stop.
    :ivar work: the desired state that is followed; None until one was heard in this life, and while the host is frozen.
    :ivar start: the uuid of this life.
    """

    def __init__(
        self,
        *,
        hostname: str,
        root: Root,
        state_dir: str | os.PathLike[str],
        enabled_types: EnabledTypes,
        clock: Callable[[], float],
        wall: Callable[[], float],
        rescan: float,
        pause: Callable[[float], object],
    ) -> None:
        super().__init__()
        self._hostname = hostname
        self._root = root
        self._enabled = enabled_types
        self._file = DesiredFile(state_dir)
        self._handed = Handed(state_dir)
        self._hands = Hands(root, self._file, Desired(), pause, require_reset=enabled_types.require_reset)
        self._identity = Identity.of(root, wall)
        self._conditions = Conditions(clock)
        self._memory = Memory(hostname, self._hands, self._conditions)
        self._intents = Intents(root, self._hands, enabled_types, clock, rescan)
        self._looks = Looks(root, clock)
        self._drivers, self._driver_problems = loader.load()
        self._names = PciIds(root)
        self.start = str(uuid.uuid4())
        self.work: Work | None = None
        #: A life that remembers nothing at all: what the server says is lent at its first word is lent.
        self._believes = False
        #: What there is to say of units that are lent, by uuid.
        self._remarks: dict[str, Remark] = {}
        self._blind: str | None = None

    def when_cleaning(self, tell: Callable[[str], object]) -> None:
        """Let ``tell`` know the uuid of each unit whose cleaning begins: nobody holds it any more."""
        self._hands.on_cleaning = tell

    def when_changing(self, tell: Callable[[], object]) -> None:
        """Let ``tell`` be called before each change of the host, and each look at who uses something."""
        self._hands.on_change = tell

    def when_guest_done(self, wake: Callable[[], object]) -> None:
        """Let ``wake`` be called when a guest is done with that no pass has waited for: there is news for the next one."""
        self._hands.entries.on_done = wake

    def held(self) -> AbstractContextManager[None]:
        """Nobody else does this for the host meanwhile: see :meth:`cantle.agent.desired.DesiredFile.held`."""
        return self._file.held()

    @property
    def memory(self) -> Desired:
        """What the host must not forget."""
        return self._memory.now

    @property
    def retry_at(self) -> float | None:
        """When an intent that failed is due again, by the clock."""
        return self._intents.retry_at

    @alone
    def begin(self) -> None:
        """The start of a life: what was lent is made ready again before anything is reported. What fails is tried again.

        :raises HostError: ``agent-state-unreadable``.
        """
        self._load()
        self._memory.keep(msgspec.structs.replace(self.memory, starts=self.memory.starts + 1))
        try:
            restored = self._restore()
        except CantleError as error:
            _log.error("what was lent cannot be restored now: %s", error)
        else:
            _log.info("%d lent units were looked at, %d are not ready", restored.units, len(restored.failures))

    @alone
    def restore(self) -> Restored:
        """The same for the boot: it says what came of it.

        :raises HostError: ``agent-state-unreadable``, ``agent-state-unwritable``; what else cannot be read.
        """
        self._load()
        return self._restore()

    def _load(self) -> None:
        self._hands.memory = self._file.load()
        self._handed.load(handle.uuid for handle in self._memory.wanted)
        self._believes = self.memory.work is None and not self._handed.uuids

    def _restore(self) -> Restored:
        work = self.memory.work
        if work is None:
            return Restored()
        self._intents.apply(work)
        results = self._hands.perform(converge.plan(work, self._observe(work), restore=True), patient=True)
        failed = [f"{one.uuid}: {one.message}" for one in results if one.outcome is Outcome.FAILED]
        late = [f"{device}: {message}" for device, (_, message) in self._intents.unready.items()]
        wishes = sum(wish.mode is not None for wish in work.intents)
        return Restored(wishes, len(results), (*late, *failed))

    def _observe(self, work: Work, *, guests: bool = True) -> Observed:
        return converge.observe(
            self._root,
            work,
            self.memory.taken,
            kept=self._intents.kept,
            adopted=self.memory.adopted,
            unready=self._intents.unready,
            held_back=self._memory.held_back,
            handed=self._handed.uuids,
            guests=guests,
        )

    def look_at_everything(self) -> None:
        """The next look does: something has changed."""
        self._looks.forget()

    @alone
    def look(self) -> InventoryReport:
        """The host as it is, after every card has been brought to what is wanted of it as far as it goes.

        :raises HostError: what cannot be read: then nothing is known, and nothing must be reported.
        """
        work = self.work or self.memory.work or Work(0)
        if not self.memory.frozen_at:
            self._intents.apply(work)
        if self._enabled.adopt:
            self._looks.forget()  # who holds a mediated device is in no file that could be compared
        lent = (work.wanted, work.unwanted, self.memory.leftovers)
        basis = (lent, self._intents.standings, self.memory.taken, self.memory.adopted)
        report = self._looks.report(basis, lambda: self._whole_look(work))
        self._memory.try_again()
        told = self._conditions.told()
        generation = following.followed(self.memory)
        return self._identity.sign(report, starts=self.memory.starts, generation=generation, conditions=told)

    def _whole_look(self, work: Work) -> InventoryReport:
        memory = self.memory
        view, problems = discover.look(
            self._hostname,
            self._root,
            self._enabled,
            {handle.uuid: handle for handle in (*work.unwanted, *work.wanted)},
            self._names,
            wishes=self._intents.in_force,
            known=memory.known,
            left=memory.leftovers,
        )
        known_problems = [*self._driver_problems, *problems]
        report = discover.report(view, self._drivers, known_problems, self.start, self._intents.told)
        adopted = discover.adopted(view, memory.adopted, report.devices)
        known = discover.remember(memory.known, report.devices)
        self._memory.keep(msgspec.structs.replace(self.memory, known=known, adopted=adopted))
        left = {handle.uuid for handle in memory.leftovers}
        self._conditions.set(conditions.FOREIGN, discover.foreign(view, left | set(adopted)))
        return report

    @alone
    def follow(self, work: Work) -> str | None:
        """Take up a new desired state, on the disk before anything is done; or say why this host is frozen and does not."""
        at = following.frozen_at(self.memory, work)
        if at:
            return self._freeze(work, at)
        if self._conditions.set(conditions.FROZEN, None) or self.memory.frozen_at:
            _log.warning("%s goes on: it was confirmed that it follows generation %d", self._hostname, work.generation)
        if self._believes:
            # What is there was told ready by a predecessor; what is not there yet is new.
            there = converge.there(work, self._observe(work))
            self._handed.note(there, (), there)
            self._believes = False
        self._handed.forget(following.lent_anew(self.memory, work))
        known, self.work = self.work, work
        self._memory.follow(work)
        if known is None or work.intents != known.intents:
            self._intents.apply(work)
        return None

    def _freeze(self, work: Work, at: int) -> str:
        message = (
            f"this host has followed generation {at}, and its server is at {work.generation}: the server's database was restored from a "
            "backup, or is another one. Nothing is prepared or removed here until a person has looked what is in use and said: cantle "
            f"host confirm {self._hostname}"
        )
        self.work = None
        self._memory.keep(msgspec.structs.replace(self.memory, frozen_at=at))
        if self._conditions.set(conditions.FROZEN, message):
            _log.error("%s is frozen: %s", self._hostname, message)
        return message

    def new_units(self, work: Work) -> list[WantedHandle]:
        """Units that are wanted and were not before."""
        return self._memory.new_units(work)

    @alone
    def settle(self) -> Pass:
        """One pass: do what there is to do for each unit, each by itself.

        :raises HostError: when the host cannot be read.
        """
        work = self.work
        if work is None:
            return Pass()
        if self._memory.unsaved:
            self._memory.follow(work)
        left = following.to_take_back(self.memory.leftovers, work)
        tasks = converge.plan(work, self._observe(work), leftovers=left)
        self._hands.keep({task.handle.uuid for task in tasks})
        done = self._hands.perform(tasks)
        behind = [handle.uuid for handle in left]
        news = self._leave(behind, [one for one in done if one.uuid in behind])
        results = guests.remarked((one for one in done if one.uuid not in behind), self._remarks)
        worked = news or any(task.step is not None or task.entry is not None for task in tasks)
        return Pass(results, worked, any(result.outcome in (Outcome.FAILED, Outcome.QUARANTINED) for result in done))

    def _leave(self, behind: Sequence[str], results: list[HandleResult]) -> bool:
        """What became of units that were left behind: they are forgotten when they have gone. Whether there is news for a person."""
        gone = {result.uuid for result in results if result.outcome is Outcome.ABSENT}
        if gone:
            leftovers = tuple(one for one in self.memory.leftovers if one.uuid not in gone)
            self._memory.keep(msgspec.structs.replace(self.memory, leftovers=leftovers))
        told = {result.uuid: result.message for result in results}
        kept = [f"{uuid} ({told.get(uuid, 'its guest is asked for it')})" for uuid in behind if uuid not in gone]
        message = f"no lease has these any more; they are taken back as soon as that is possible: {'; '.join(kept)}"
        return self._conditions.set(conditions.LEFT, message if kept else None)

    @alone
    def hand_over(self, results: Collection[HandleResult]) -> None:
        """Before the server is told: from then on guests may hold what is ready."""
        if self.work is None:
            return
        self._handed.note(
            (one.uuid for one in results if one.outcome is Outcome.READY),
            (one.uuid for one in results if one.outcome is Outcome.ABSENT),
            {handle.uuid for handle in (*self.work.wanted, *self.work.unwanted)},
        )

    @alone
    def let_go(self, gone: Collection[str]) -> bool:
        """The server knows that these have gone: they are not ours any more. Whether any was."""
        if self.work is None or not any(handle.uuid in gone for handle in self.work.unwanted):
            return False
        self._memory.gone.update(gone)
        unwanted = tuple(handle for handle in self.work.unwanted if handle.uuid not in gone)
        self.work = msgspec.structs.replace(self.work, unwanted=unwanted)
        return True

    @alone
    def keep_ready(self) -> None:
        """While the server is away: what is lent is made ready again if it has gone. Nothing is taken back: it may be wanted again. Before
        the server was heard in this life, what is lent is what the disk says."""
        work = self.work or (self.memory.work if not self.memory.frozen_at else None)
        if work is None:
            return
        try:
            self._hands.perform(converge.plan(work, self._observe(work), restore=True))
        except CantleError as error:
            _log.error("%s: what is lent cannot be looked at: %s", self._hostname, error)

    @property
    def wanted(self) -> tuple[WantedHandle, ...]:
        """Units that are lent, as far as is known."""
        work = self.work or self.memory.work
        return work.wanted if work is not None else ()

    @alone
    def of_start(
        self, chosen: Callable[[WantedHandle], bool], *, prepare: bool
    ) -> list[tuple[WantedHandle, HandleResult]]:
        """Units of a guest that is about to start, and how they stand. Nothing is put into the guest: its manager is busy with it.

        :param prepare: they are made ready first, unless the host is frozen.
        :raises HostError: when the host cannot be read.
        """
        work = self.work or self.memory.work
        if work is None or not any(map(chosen, work.wanted)):
            return []
        tasks = converge.plan(work, self._observe(work, guests=False), restore=True)
        tasks = [dataclasses.replace(task, entry=None) for task in tasks if chosen(task.handle)]
        doing = prepare and not self.memory.frozen_at
        done = self._hands.perform(tasks) if doing else list(map(converge.stands, tasks))
        return list(zip((task.handle for task in tasks), done, strict=True))

    @alone
    def look_at_guests(self) -> bool:
        """Whether lent units are still where they were lent to. Where that cannot be found out, what was found last stands; False then:
        the look is to be repeated."""
        if self.work is None:
            return True
        units = [handle for handle in self.work.wanted if handle.uuid in self._handed.uuids]
        try:
            seen = guests.look(units, domains(self._root), self.memory.guests)
        except CantleError as error:
            if self._blind != str(error):  # looked again soon, and told when it is something else
                _log.warning("%s: who has what is lent cannot be found out: %s", self._hostname, error)
            self._blind = str(error)
            return False
        self._blind = None
        stopped = guests.stopped(self._root, units, self._remarks)
        self._remarks = {**stopped.remarks, **seen.remarks}
        self._memory.keep(msgspec.structs.replace(self.memory, guests=seen.guests))
        return not stopped.unknown

    def server_was_away(self, message: str, seconds: float) -> None:
        """Say so for a while."""
        self._conditions.set(conditions.AWAY, message, seconds=seconds)
