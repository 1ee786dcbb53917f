"""Carrying tasks out on the host: each to its end or back to its start."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from cantle.agent.converge import DROP_MDEV, LEND_WHOLE, MAKE_MDEV, TAKE_BACK_WHOLE, Task
from cantle.agent.desired import Desired, DesiredFile
from cantle.errors import CantleError, HostError
from cantle.kernel import mdev, pci, vfio
from cantle.kernel import unit as units
from cantle.kernel.mdev import MdevDevice
from cantle.kernel.root import Root
from cantle.kernel.undo import Executors, Undo, run_steps
from cantle.kernel.vfio import Original
from cantle.model.pci import PciAddress
from cantle.model.step import Step
from cantle.wire.work import HandleResult, Outcome, Work

_log = logging.getLogger(__name__)


class Hands:
    """Changes the host, and remembers on its disk what must be known to take a change back.

    :param memory: what was loaded from ``file``.
    """

    def __init__(self, root: Root, file: DesiredFile, memory: Desired) -> None:
        self._root = root
        self._file = file
        self.memory = memory
        self._executors: Executors = {
            MAKE_MDEV: self._make_mdev,
            DROP_MDEV: self._drop_mdev,
            LEND_WHOLE: self._lend_whole,
            TAKE_BACK_WHOLE: self._take_back_whole,
        }

    def remember(self, work: Work) -> None:
        """Put a new desired state on the disk, before it is acted upon.

        :raises HostError: ``agent-state-unwritable``.
        """
        self._save(msgspec.structs.replace(self.memory, work=work))

    def perform(self, tasks: Iterable[Task]) -> list[HandleResult]:
        """Every task in order; the failure of one stops no other."""
        return [self._perform(task) for task in tasks]

    def _perform(self, task: Task) -> HandleResult:
        uuid = task.handle.uuid
        if task.refusal is not None:
            return HandleResult(uuid, Outcome.FAILED, *task.refusal)
        if task.step is None:
            return HandleResult(uuid, task.goal)
        try:
            for note in run_steps(self._root, [task.step], self._executors):
                _log.info("%s: %s", task.step.sentence, note)
        except CantleError as error:
            _log.warning("could not %s: %s", task.step.sentence, error)
            return HandleResult(uuid, Outcome.FAILED, error.code, error.message)
        _log.info("did %s", task.step.sentence)
        return HandleResult(uuid, task.goal)

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
        try:
            mdev.remove(root, step.target)
        except HostError:
            if mdev.device(root, step.target) is not None:
                raise

    def _lend_whole(self, root: Root, step: Step, undo: Undo) -> None:
        card = units.find(root, PciAddress.parse(step.target))
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
        if root.exists(f"{pci.DEVICES}/{address}"):  # a card that was pulled out is held by nobody
            known = self.memory.taken.get(step.target, ())
            vfio.apply(root, vfio.plan_release(root, units.find(root, address), known), undo)
        self._take(step.target, ())

    def _take(self, card: str, originals: tuple[Original, ...]) -> None:
        """Remember where a card's functions came from; none: forget it."""
        taken = {other: known for other, known in self.memory.taken.items() if other != card}
        if originals:
            taken[card] = originals
        self._save(msgspec.structs.replace(self.memory, taken=taken))

    def _save(self, memory: Desired) -> None:
        self._file.save(memory)
        self.memory = memory
