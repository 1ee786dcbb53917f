"""Carrying tasks out on the host: each to its end or back to its start."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence

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

    ``on_cleaning`` is called with a unit's uuid when nobody holds it any more and its cleaning begins.
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
        self._require_reset = require_reset
        self._uuid = ""
        self._cleaned: Cleaning | None = None
        self._root = root
        self._file = file
        self._pause = pause
        self.memory = memory
        self._executors: Executors = {
            MAKE_MDEV: self._make_mdev,
            DROP_MDEV: self._drop_mdev,
            LEND_WHOLE: self._lend_whole,
            TAKE_BACK_WHOLE: self._take_back_whole,
            SEE_FREE: self._see_free,
            AWAIT_TYPE: self._await_type,
            **entering.EXECUTORS,
        }

    def remember(self, memory: Desired, *, again: bool = False) -> None:
        """Put what is known on the disk, before it is acted upon, if it is news.

        :param again: also if it is none, to find out whether the disk can be written now.
        :raises HostError: ``agent-state-unwritable``; what was known before still is.
        """
        if again or memory != self.memory:
            self._file.save(memory)
            self.memory = memory

    def change(self, steps: Iterable[Step]) -> None:
        """Carry out the steps of one change, all or nothing.

        :raises CantleError: what a step raised; the host is as before, or it is ``undo-incomplete``.
        """
        for text in run_steps(self._root, steps, self._executors):
            _log.info("%s", text)

    def perform(self, tasks: Iterable[Task]) -> list[HandleResult]:
        """Every task in order; the failure of one stops no other."""
        return [self._perform(task) for task in tasks]

    def _perform(self, task: Task) -> HandleResult:
        uuid = task.handle.uuid
        if task.refusal is not None:
            return HandleResult(uuid, Outcome.FAILED, *task.refusal)
        self._uuid, self._cleaned = uuid, cleaning.NOTHING if task.goal is Outcome.ABSENT else None
        done = HandleResult(uuid, task.goal, entered=task.goal is Outcome.READY and task.handle.guest is not None)
        steps = tuple(step for step in (task.step, task.entry) if step is not None)
        if not steps:
            return msgspec.structs.replace(done, cleaning=self._cleaned)
        sentence = ", ".join(step.sentence for step in steps)
        left: list[str] = []
        try:
            if (
                task.entry is not None and task.goal is Outcome.ABSENT
            ):  # it stays out, even if the unit cannot be taken back yet
                left = run_steps(self._root, [task.entry], self._executors)
                steps = steps[:-1]
            for note in run_steps(self._root, steps, self._executors):
                _log.info("%s: %s", sentence, note)
        except CantleError as error:
            _log.warning("could not %s: %s", sentence, error)
            outcome = Outcome.QUARANTINED if error.code in cleaning.NOT_CLEAN else Outcome.FAILED
            return HandleResult(uuid, outcome, error.code, error.message)
        _log.info("did %s", sentence)
        return msgspec.structs.replace(done, cleaning=cleaning.after(self._cleaned, left))

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
        if how == FOR_NEXT:
            self.on_cleaning(self._uuid)
        try:
            self._cleaned = cleaning.clean(root, card, required=self._require_reset)
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


def type_missing(device: str, type_id: str, offered: Sequence[str]) -> HostError:
    """A parent that does not offer the type that is wanted of it."""
    now = (
        f"it offers {', '.join(offered)}"
        if offered
        else "it offers none now: its driver is not there, or still starting"
    )
    return HostError("mdev-type-missing", f"{device} does not offer {type_id}; {now}")
