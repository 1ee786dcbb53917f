"""Carrying tasks out on the host: each to its end or back to its start."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby

import msgspec

from cantle.agent import cleaning, entering
from cantle.agent.converge import (
    CLEAN,
    DROP_MDEV,
    FOR_NEXT,
    FREE,
    LEND_WHOLE,
    MAKE_MDEV,
    SEE_FREE,
    TAKE_BACK_WHOLE,
    Task,
)
from cantle.agent.desired import Desired, DesiredFile
from cantle.agent.entries import Done, Entries, Job
from cantle.attach import entry
from cantle.errors import CantleError, HostError
from cantle.kernel import mdev, mdevctl, pci, vfio
from cantle.kernel import unit as units
from cantle.kernel.mdev import MdevDevice
from cantle.kernel.root import Root
from cantle.kernel.undo import Executors, Undo, run_steps
from cantle.kernel.unit import Unit
from cantle.kernel.vfio import Original
from cantle.model.intent import is_pci
from cantle.model.pci import PciAddress
from cantle.model.step import Step
from cantle.wire.work import Cleaning, HandleResult, Outcome

#: Makes sure that a parent offers a type, waiting ``seconds`` for it.
AWAIT_TYPE = "await-type"
_MOMENT = 0.25

_log = logging.getLogger(__name__)


class Hands:
    """Changes the host, and remembers on its disk what must be known to take a change back.

    :param memory: what was loaded from ``file``.
    :param pause: sleeps for so many seconds, less when it is time to stop.
    :param require_reset: a card that offers no reset is not clean for the next one.

    ``on_cleaning`` is called with a unit's uuid when nobody holds it any more and its cleaning begins, ``on_change`` before each change.
    """

    def __init__(
        self,
        root: Root,
        file: DesiredFile,
        memory: Desired,
        pause: Callable[[float], object] = time.sleep,
        *,
        require_reset: bool = False,
    ) -> None:
        self.on_cleaning: Callable[[str], object] = lambda _uuid: None
        self.on_change: Callable[[], object] = lambda: None
        self._require_reset = require_reset
        self._uuid = ""
        self._cleaned: Cleaning | None = None
        self._root = root
        self._file = file
        self._pause = pause
        self.memory = memory
        self.entries = Entries(root)
        #: The failure that was told last and what it kept from coming about, by uuid of the unit.
        self._said: dict[str, tuple[Outcome, str]] = {}
        #: From what was prepared for units that are yet to enter their guests, by uuid.
        self._ways_back: dict[str, Undo] = {}
        self._executors: Executors = {
            MAKE_MDEV: self._make_mdev,
            DROP_MDEV: self._drop_mdev,
            LEND_WHOLE: self._lend_whole,
            TAKE_BACK_WHOLE: self._take_back_whole,
            SEE_FREE: self._see_free,
            AWAIT_TYPE: self._await_type,
            **entering.EXECUTORS,
            entering.SEE_UNUSED: self._see_unused,
        }

    def remember(self, memory: Desired, *, again: bool = False) -> None:
        """Put what is known on the disk, before it is acted upon, if it is news.

        :param again: also if it is none, to find out whether the disk can be written now.
        :raises HostError: ``agent-state-unwritable``; what was known before still is.
        """
        if again or memory != self.memory:
            self._file.save(memory)
            self.memory = memory

    def change(self, steps: Iterable[Step], undo: Undo | None = None) -> None:
        """Carry out the steps of one change, all or nothing.

        :param undo: the stack of a larger change, which then answers for this one too.
        :raises CantleError: what a step raised; the host is as before, or it is ``undo-incomplete``.
        """
        self.on_change()
        for text in run_steps(self._root, steps, self._executors, undo):
            _log.info("%s", text)

    def perform(self, tasks: Iterable[Task], *, patient: bool = False) -> list[HandleResult]:
        """Every task, those of one goal together; the failure of one stops no other. A unit whose guest is still waited for has no result.

        :param patient: wait for guests, however long they take.
        """
        results = []
        for goal, its in groupby(tasks, key=lambda task: task.goal):
            act = self._take_back if goal is Outcome.ABSENT else self._make_ready
            results += act(list(its), patient=patient)
        for one in results:
            if one.outcome not in (Outcome.FAILED, Outcome.QUARANTINED):
                self._say_over(one)
        return results

    def keep(self, uuids: Collection[str]) -> None:
        """Forget what was begun for other units."""
        self.entries.keep(uuids)
        self._ways_back = {uuid: way for uuid, way in self._ways_back.items() if uuid in uuids}
        self._said = {uuid: said for uuid, said in self._said.items() if uuid in uuids}

    def _failed(self, task: Task, step: Step | None, error: CantleError) -> HandleResult:
        self._say(task, f"could not {step.sentence if step is not None else ''}: {error}")
        outcome = Outcome.QUARANTINED if error.code in cleaning.NOT_CLEAN else Outcome.FAILED
        return HandleResult(task.handle.uuid, outcome, error.code, error.message)

    def _say(self, task: Task, failure: str) -> None:
        """What fails is tried again each second, many units at a time: the same words once."""
        uuid, said = task.handle.uuid, (task.goal, failure)
        if self._said.get(uuid) != said:
            _log.warning("unit %s: %s", uuid, failure)
            self._said[uuid] = said

    def _say_over(self, result: HandleResult) -> None:
        """Once, and only of what had failed: a unit that could not be made is taken back without more words."""
        goal, _ = self._said.pop(result.uuid, (None, ""))
        if goal is result.outcome:
            _log.warning("unit %s is %s after all", result.uuid, "ready" if goal is Outcome.READY else "taken back")

    def _take_back(self, tasks: list[Task], *, patient: bool) -> list[HandleResult]:
        """Out of their guests, then from where they are. What has left its guest stays out, even if it cannot be taken back yet."""
        left = self.entries.run(_jobs(task for task in tasks if task.refusal is None), patient=patient)
        return [self._taken_back(task, left.get(task.handle.uuid)) for task in tasks if _is_due(task, left)]

    def _make_ready(self, tasks: list[Task], *, patient: bool) -> list[HandleResult]:
        """All made ready, then those into their guests that are. One that is on its way there now is not touched."""
        under_way = self.entries.under_way()
        tasks = [task for task in tasks if task.entry is None or task.handle.uuid not in under_way]
        made = {task.handle.uuid: self._made_ready(task) for task in tasks}
        ready = [task for task in tasks if made[task.handle.uuid].outcome is Outcome.READY and task.entry is not None]
        entered = self.entries.run(_jobs(ready), patient=patient)
        for task in ready:
            if task.handle.uuid in entered:
                made[task.handle.uuid] = self._entered(task, entered[task.handle.uuid])
            else:
                del made[task.handle.uuid]
        return list(made.values())

    def _taken_back(self, task: Task, left: Done | None) -> HandleResult:
        """:param left: what came of taking it out of its guest, where that was to be done."""
        if task.refusal is not None:
            return HandleResult(task.handle.uuid, Outcome.FAILED, *task.refusal)
        if left is not None and left.error is not None:
            return self._failed(task, task.entry, left.error)
        self._uuid, self._cleaned = task.handle.uuid, cleaning.NOTHING
        notes = left.notes if left is not None else []
        if task.step is not None:
            try:
                self.change([task.step])
            except CantleError as error:
                return self._failed(task, task.step, error)
            _log.info("did %s", ", ".join([task.step.sentence, *notes]))
        self._ways_back.pop(task.handle.uuid, None)  # of a unit whose guest answered when it was not wanted any more
        return HandleResult(task.handle.uuid, Outcome.ABSENT, cleaning=cleaning.after(self._cleaned, notes))

    def _made_ready(self, task: Task) -> HandleResult:
        uuid = task.handle.uuid
        if task.refusal is not None:
            return HandleResult(uuid, Outcome.FAILED, *task.refusal)
        self._uuid, self._cleaned = uuid, None
        if task.step is not None:
            way_back = self._ways_back.setdefault(uuid, Undo())
            try:
                self.change([task.step], way_back)
            except CantleError as error:
                return self._failed(task, task.step, error)
            _log.info("did %s", task.step.sentence)
        if task.entry is None:
            self._ways_back.pop(uuid, None)
        return HandleResult(uuid, Outcome.READY, entered=task.handle.guest is not None)

    def _entered(self, task: Task, done: Done) -> HandleResult:
        """What could not enter its guest is not left prepared for it either."""
        way_back = self._ways_back.pop(task.handle.uuid, Undo())
        if done.error is not None:
            try:
                with way_back:
                    raise done.error
            except CantleError as error:
                return self._failed(task, task.entry, error)
        _log.info("did %s", ", ".join([task.entry.sentence if task.entry is not None else "", *done.notes]))
        return HandleResult(task.handle.uuid, Outcome.READY, entered=True)

    def _make_mdev(self, root: Root, step: Step, undo: Undo) -> None:
        parent, type_id = step.args["parent"], step.args["type"]
        try:
            mdev.create(root, parent, type_id, step.target)
        except HostError:
            # What counts is what is there: a driver may make the device and then answer with an error.
            if mdev.device(root, step.target) != MdevDevice(step.target, type_id, parent):
                raise
        undo.push(f"remove {step.target} again", lambda: mdev.remove(root, step.target))

    def _drop_mdev(self, root: Root, step: Step, _undo: Undo) -> None:
        was_there = mdev.device(root, step.target) is not None
        if mdevctl.definitions(root, step.target):
            mdev.check_free(root, step.target)
            for file in mdevctl.undefine(root, step.target):
                _log.info("%s would have made %s again at boot: removed", file, step.target)
        try:
            mdev.remove(root, step.target)
        except HostError:
            if mdev.device(root, step.target) is not None:
                raise
        if was_there:
            self._cleaned = cleaning.REMOVED

    def _lend_whole(self, root: Root, step: Step, undo: Undo) -> None:
        card = units.find(root, PciAddress.parse(step.target))
        if step.args.get(FREE):
            vfio.check_free(root, card)
        plan = vfio.plan_bind(root, card, load_module=True)
        if not plan.steps:
            return
        for warning in plan.warnings:
            _log.warning("%s: %s", step.target, warning)
        known = self.memory.taken.get(step.target, ())
        self._take(step.target, vfio.originals(root, card, known))
        if not known:
            undo.push(f"forget where {step.target} came from", lambda: self._take(step.target, ()))
        vfio.apply(root, plan, undo)

    def _take_back_whole(self, root: Root, step: Step, undo: Undo) -> None:
        address = PciAddress.parse(step.target)
        known = self.memory.taken.get(step.target, ())
        if root.exists(f"{pci.DEVICES}/{address}"):  # a card that was pulled out is held by nobody
            card = units.find(root, address)
            self._clean(root, card, step.args.get(CLEAN))
            vfio.apply(root, vfio.plan_release(root, card, known), undo)
        self._take(step.target, ())
        if known:
            undo.push(f"remember where {step.target} came from", lambda: self._take(step.target, known))

    def _see_free(self, root: Root, step: Step, _undo: Undo) -> None:
        if is_pci(step.target) and root.exists(f"{pci.DEVICES}/{step.target}"):
            card = units.find(root, PciAddress.parse(step.target))
            vfio.check_free(root, card)
            self._clean(root, card, step.args.get(CLEAN))
        elif not is_pci(step.target):
            mdev.check_free(root, step.target)
            if self._cleaned is not None:
                self._cleaned = cleaning.KEPT

    def _clean(self, root: Root, card: Unit, how: str | None) -> None:
        """Clean a card that comes back from a lease. One that no lease is known of any more is given back even if that fails."""
        if how is None:
            return
        vfio.check_free(root, card)
        self._clean_by(cleaning.clean, root, card, how)

    def _see_unused(self, root: Root, step: Step, _undo: Undo) -> None:
        """A card that a container has, had or is to have: it stays on its driver."""
        entry.check_unused(root, step.target)
        how = step.args.get(CLEAN)
        if how is None:
            return
        if not is_pci(step.target):
            self._cleaned = cleaning.SLICE
        elif root.exists(f"{pci.DEVICES}/{step.target}"):
            card = units.find(root, PciAddress.parse(step.target))
            self._clean_by(cleaning.in_place, root, card, how)

    def _clean_by(self, way: Callable[..., Cleaning], root: Root, card: Unit, how: str) -> None:
        if how == FOR_NEXT:
            self.on_cleaning(self._uuid)
        try:
            self._cleaned = way(root, card, required=self._require_reset)
        except HostError as error:
            if how == FOR_NEXT or error.code not in cleaning.NOT_CLEAN:
                raise
            _log.warning("%s is given back as it is: %s", card.card.address, error)

    def _await_type(self, root: Root, step: Step, _undo: Undo) -> None:
        """A driver that has just got a card back takes a moment to offer its types."""
        type_id, left = step.args["type"], float(step.args["seconds"])
        while True:
            offered = [one.type_id for one in mdev.types(root, step.target)]
            if type_id in offered:
                return
            if left <= 0:
                raise type_missing(step.target, type_id, offered)
            self._pause(_MOMENT)
            left -= _MOMENT

    def _take(self, card: str, originals: tuple[Original, ...]) -> None:
        """Remember where a card's functions came from; none: forget it."""
        taken = {other: known for other, known in self.memory.taken.items() if other != card}
        if originals:
            taken[card] = originals
        self.remember(msgspec.structs.replace(self.memory, taken=taken))


def _jobs(tasks: Iterable[Task]) -> list[Job]:
    return [Job(task.handle.uuid, task.entry) for task in tasks if task.entry is not None]


def _is_due(task: Task, left: Mapping[str, Done]) -> bool:
    """Whether nothing of it is done in its guest any more."""
    return task.entry is None or task.refusal is not None or task.handle.uuid in left


def type_missing(device: str, type_id: str, offered: Sequence[str]) -> HostError:
    """A parent that does not offer the type that is wanted of it."""
    now = (
        f"it offers {', '.join(offered)}"
        if offered
        else "it offers none now: its driver is not there, or still starting"
    )
    return HostError("mdev-type-missing", f"{device} does not offer {type_id}; {now}")
