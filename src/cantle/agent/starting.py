"""Guests that are started by others, or by themselves: what a hook asks before, what is done then, and what is seen to after."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from cantle.agent import entering
from cantle.agent.upkeep import Upkeep
from cantle.attach import entry, lxc
from cantle.errors import CantleError, Unavailable
from cantle.kernel import container
from cantle.kernel.char_device import Node
from cantle.kernel.root import Root
from cantle.model.attachment import GuestKind
from cantle.wire.hook import LENT, Answer, Event, Lent, Question, UnitAnswer
from cantle.wire.work import HandleResult, Outcome, WantedHandle, Work

#: Seconds for a container to run, or to be gone, after its hook; and between two looks whether it is so.
_WITHIN = 60.0
_MOMENT = 0.5

_log = logging.getLogger(__name__)


class Starting:
    """Answers hooks.

    :param look_again: makes the agent look at its host.
    """

    def __init__(self, root: Root, upkeep: Upkeep, look_again: Callable[[], object], ended: threading.Event) -> None:
        self._root = root
        self._upkeep = upkeep
        self._look_again = look_again
        self._ended = ended
        self._noted: Lent | None = None

    def answer(self, question: Question) -> Answer:
        """See :class:`cantle.wire.hook.Event`.

        :raises Unavailable: ``agent-busy``: it works on something else for as long as the asker waits.
        """
        if question.event is Event.ENDED:
            self._in_a_thread(self._see_end, question)
            return Answer()
        deadline = time.monotonic() + question.seconds
        with self._upkeep.alone(question.seconds) as free:
            if not free:
                raise Unavailable(
                    "agent-busy",
                    f"the agent has worked on something else for {question.seconds:.0f} s: its log says on what",
                )
            starts = question.event is Event.STARTING
            done = self._upkeep.of_start(lambda handle: _is_its(handle, question), prepare=starts)
            if starts and question.kind == GuestKind.LXC:
                done = self._refreshed(question, done)
        if starts and done:
            self._in_a_thread(self._see_start, question, deadline)
        return Answer(tuple(_told(handle, result) for handle, result in done))

    def note(self, work: Work | None) -> None:
        """Write down who has a lease, for hooks that find no agent. Where that cannot be done they take everybody for a stranger."""
        wanted = work.wanted if work is not None else ()
        guests = {f"{one.guest.kind}:{one.guest.name}" for one in wanted if one.guest is not None}
        lent = Lent(tuple(sorted(guests)), tuple(sorted({entering.unit(one) for one in wanted})))
        if lent == self._noted:
            return
        try:
            self._root.replace(LENT, msgspec.json.encode(lent) + b"\n")
        except CantleError as error:
            _log.warning("hooks of guests cannot be told who has a lease: %s", error)
        else:
            self._noted = lent

    def _refreshed(
        self, question: Question, done: list[tuple[WantedHandle, HandleResult]]
    ) -> list[tuple[WantedHandle, HandleResult]]:
        """A container's books of its leases, with the numbers of now. Who asks without a lease, by hand, asks for all of them."""
        into = [handle for handle, result in done if result.outcome is Outcome.READY and _into(handle, question)]
        failed: dict[str, CantleError] = {}
        for lease in sorted({handle.guest.lease for handle in into if handle.guest is not None}):
            its = [handle for handle in into if handle.guest is not None and handle.guest.lease == lease]
            try:
                lxc.refresh(self._root, question.name, lease, self._nodes(its))
            except CantleError as error:
                _log.warning("lxc:%s starts with what it had of lease %s: %s", question.name, lease, error)
                failed.update((handle.uuid, error) for handle in its)
        return [(one, _failed(one, failed[one.uuid]) if one.uuid in failed else result) for one, result in done]

    def _nodes(self, ready: Sequence[WantedHandle]) -> Sequence[Node]:
        units = [entering.unit(handle) for handle in ready]
        return entry.nodes(self._root, units[0], units[1:])

    def _in_a_thread(self, target: Callable[..., None], *args: object) -> None:
        threading.Thread(target=target, args=args, name="guest that starts or ends", daemon=True).start()

    def _see_start(self, question: Question, deadline: float) -> None:
        """Look at the guest when it runs: not before, as its manager answers nobody while it starts."""
        if question.kind == GuestKind.LXC and self._root.is_machine:
            self._correct(question)
        else:
            self._ended.wait(max(0.0, deadline - time.monotonic()))
        self._look()

    def _see_end(self, question: Question) -> None:
        """Look at the guest when it is gone: its manager answers nobody while its hook runs."""
        if question.kind == GuestKind.LXC and self._root.is_machine:
            self._ended.wait(_MOMENT)
            self._await(question.name, lambda pid: pid is None)
        self._look()

    def _look(self) -> None:
        if not self._ended.is_set():
            self._look_again()

    def _await(self, name: str, condition: Callable[[int | None], bool]) -> bool:
        """Wait until a container's init is as it shall be; False where that is not seen."""
        deadline = time.monotonic() + _WITHIN
        while not self._ended.is_set() and time.monotonic() < deadline:
            try:
                if condition(container.init_pid(self._root, name)):
                    return True
            except CantleError as error:
                _log.info("lxc:%s does not say whether it runs: %s", name, error)
            self._ended.wait(_MOMENT)
        return False

    def _correct(self, question: Question) -> None:
        """liblxc read the numbers before its hook asked: if they have changed since, the container is permitted others' devices."""
        if question.permitted is None or not self._await(question.name, lambda pid: pid is not None):
            return
        with self._upkeep.alone(_WITHIN) as free:
            wanted = [one for one in self._upkeep.wanted if _into(one, question)]
            if not free or not wanted:
                return
            try:
                nodes = self._nodes(wanted)
                numbers = {container.number(node) for node in nodes}
                if numbers != set(question.permitted):
                    lxc.correct(self._root, question.name, question.lease, nodes, question.permitted)
                    _log.warning("lxc:%s started with device numbers of before, and has those of now", question.name)
            except CantleError as error:
                _log.warning("lxc:%s may lack devices of lease %s: %s", question.name, question.lease, error)


def _is_its(handle: WantedHandle, question: Question) -> bool:
    """Whether a unit is the guest's: lent into it, or named by its configuration."""
    guest = handle.guest
    if guest is not None and (guest.kind, guest.name) == (question.kind, question.name):
        return not question.lease or guest.lease == question.lease
    return guest is None and entering.unit(handle) in question.units


def _into(handle: WantedHandle, question: Question) -> bool:
    return handle.guest is not None and _is_its(handle, question)


def _failed(handle: WantedHandle, error: CantleError) -> HandleResult:
    return HandleResult(handle.uuid, Outcome.FAILED, error.code, error.message)


def _told(handle: WantedHandle, result: HandleResult) -> UnitAnswer:
    lease = handle.guest.lease if handle.guest is not None else ""
    ready = result.outcome is Outcome.READY
    return UnitAnswer(handle.uuid, handle.device, lease, ready, result.code, result.message)
