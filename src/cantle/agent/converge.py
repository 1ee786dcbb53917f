"""From what is wanted and what is there to what is done: one task per unit, each on its own.

:func:`plan` is pure. A unit that is as it should be gives a task without steps, so running all tasks again and again changes nothing
and always says how every unit stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from cantle.agent import entering
from cantle.errors import CantleError
from cantle.kernel import mdev, mdevctl, vfio
from cantle.kernel import unit as units
from cantle.kernel.mdev import MdevDevice
from cantle.kernel.root import Root
from cantle.model.attach_handle import AttachType
from cantle.model.pci import PciAddress
from cantle.model.step import Step
from cantle.wire.work import HandleResult, Outcome, WantedHandle, Work

MAKE_MDEV = "make-mdev"
DROP_MDEV = "drop-mdev"
LEND_WHOLE = "lend-whole"
TAKE_BACK_WHOLE = "take-back-whole"
SEE_FREE = "see-free"
#: An argument of LEND_WHOLE: nobody may have the card yet, not even on vfio-pci.
FREE = "free"
#: An argument of SEE_FREE and TAKE_BACK_WHOLE: the card is cleaned once nobody has it. FOR_NEXT: it must be clean before it is lent again.
CLEAN = "clean"
FOR_NEXT = "for-next"
IF_POSSIBLE = "if-possible"


@dataclass(frozen=True, slots=True)
class Task:
    """What to do about one unit.

    :param goal: what it is afterwards.
    :param step: None when it is so already, or refused.
    :param refusal: code and message when nothing may be done.
    :param entry: into its guest, once it is ready; or out of it, before it is taken back. None when it has no guest or is there.
    """

    handle: WantedHandle
    goal: Outcome
    step: Step | None = None
    refusal: tuple[str, str] | None = None
    entry: Step | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """How the host is, as far as the units spoken of go.

    :param mdevs: all mediated devices by uuid.
    :param bound: cards of which vfio-pci has every function.
    :param taken: cards that we took from their drivers and have yet to give back.
    :param kept: cards that stay on vfio-pci while nobody borrows them: an intent says so.
    :param adopted: uuids of mediated devices that are not ours to remove.
    :param unready: devices whose intent is not applied, with code and message why; nothing is made ready on them.
    :param held_back: uuids of units that must not be touched now, with code and message why.
    :param handed: uuids of units that guests may have; None for all. One that is wanted, is there and is not in here must be in
        nobody's hands.
    :param defined: uuids of mediated devices that another tool makes again at boot.
    :param entered: uuids of units that are in the guests they are wanted in.
    """

    mdevs: Mapping[str, MdevDevice]
    bound: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    adopted: frozenset[str] = frozenset()
    unready: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    held_back: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    handed: frozenset[str] | None = None
    defined: frozenset[str] = frozenset()
    entered: frozenset[str] = frozenset()


def observe(
    root: Root,
    work: Work,
    taken: Iterable[str],
    *,
    kept: Iterable[str] = (),
    adopted: Iterable[str] = (),
    unready: Mapping[str, tuple[str, str]] | None = None,
    held_back: Mapping[str, tuple[str, str]] | None = None,
    handed: frozenset[str] | None = None,
    guests: bool = True,
) -> Observed:
    """Look at the host, as far as :class:`Observed` is not given.

    :param guests: look into them too. Not while one starts: who manages it would not answer.
    :raises HostError: when it cannot be read.
    """
    units_of_cards = [one for one in (*work.wanted, *work.unwanted) if one.attach_type is AttachType.PCI]
    cards = {one.device for one in units_of_cards if not entering.for_container(one)}
    bound = frozenset(card for card in cards if _is_bound(root, card))
    mdevs = {one.uuid: one for one in mdev.devices(root)}
    return Observed(
        mdevs,
        bound,
        frozenset(taken),
        frozenset(kept),
        frozenset(adopted),
        unready or {},
        held_back or {},
        handed,
        mdevctl.defined(root),
        entering.entered(root, work.wanted) if guests else frozenset(),
    )


def there(work: Work, observed: Observed) -> frozenset[str]:
    """Uuids of the wanted units that are made already, bound, or in their guests."""
    made = {one.uuid for one in work.wanted if one.uuid in observed.mdevs or one.device in observed.bound}
    return observed.entered | made


def _is_bound(root: Root, card: str) -> bool:
    try:
        return vfio.is_bound(root, units.find(root, PciAddress.parse(card)))
    except CantleError:
        return False  # whoever is to lend it finds out why


def plan(
    work: Work, observed: Observed, *, restore: bool = False, leftovers: Iterable[WantedHandle] = ()
) -> list[Task]:
    """A task for every unit, what is taken back first: it makes room for what is to be made.

    :param restore: only what is wanted, for a time without the server: what is to be taken back may be wanted again by now.
    :param leftovers: units to be taken back besides.
    """
    back = [] if restore else [_take_back(handle, observed, IF_POSSIBLE) for handle in leftovers]
    back += [] if restore else [_take_back(handle, observed, FOR_NEXT) for handle in work.unwanted]
    back = [_out_of_guest(task, work) for task in back]
    ready = (_into_guest(_make_ready(handle, observed), observed, work) for handle in work.wanted)
    return back + [_if_allowed(task, observed) for task in ready]


def stands(task: Task) -> HandleResult:
    """How a unit stands before anything is done about it."""
    if task.refusal is not None:
        return HandleResult(task.handle.uuid, Outcome.FAILED, *task.refusal)
    if task.step is not None:
        return HandleResult(
            task.handle.uuid, Outcome.FAILED, "unit-not-ready", f"still to be done: {task.step.sentence}"
        )
    return HandleResult(task.handle.uuid, task.goal)


def _into_guest(task: Task, observed: Observed, work: Work) -> Task:
    guest, uuid = task.handle.guest, task.handle.uuid
    # Once the server was told that it is ready, whoever stops the guest has stopped it.
    start = guest is not None and guest.start and observed.handed is not None and uuid not in observed.handed
    if guest is None or (task.step is None and uuid in observed.entered and not start):
        return task
    return replace(task, entry=entering.enter(task.handle, work.wanted, start=start))


def _out_of_guest(task: Task, work: Work) -> Task:
    return task if task.handle.guest is None else replace(task, entry=entering.leave(task.handle, work.wanted))


def _if_allowed(task: Task, observed: Observed) -> Task:
    """A unit that is there already stays; none is made on a device that is not what it is wanted to be."""
    if task.handle.uuid in observed.held_back:
        return Task(task.handle, task.goal, refusal=observed.held_back[task.handle.uuid])
    why = observed.unready.get(task.handle.device)
    nothing = task.step is None and task.entry is None
    return task if nothing or why is None else Task(task.handle, task.goal, refusal=why)


def _make_ready(handle: WantedHandle, observed: Observed) -> Task:
    match handle.attach_type:
        case AttachType.MDEV:
            return _make_slice_ready(handle, observed)
        case AttachType.NODES | AttachType.PCI if entering.for_container(handle):
            return _stays(handle, observed)
        case AttachType.NODES:
            message = f"{entering.unit(handle)} can be given to containers alone: attach its lease to one"
            return _refused(handle, Outcome.READY, "containers-only", message)
        case AttachType.PCI:
            return _lend_whole(handle, observed)
        case AttachType.TEST_PCI:
            return Task(handle, Outcome.READY)


def _lend_whole(handle: WantedHandle, observed: Observed) -> Task:
    if handle.device in observed.bound:
        return _there(handle, observed, handle.device)
    sentence = f"give {handle.device} to {vfio.VFIO_PCI}"
    args = {} if _may_be_held(handle, observed) else {FREE: "yes"}
    return Task(handle, Outcome.READY, Step(LEND_WHOLE, handle.device, args, True, True, sentence))


def _make_slice_ready(handle: WantedHandle, observed: Observed) -> Task:
    type_id = handle.attach_info.get("asked_type", "")
    if not type_id:
        return _refused(handle, Outcome.READY, "unit-malformed", f"{handle.uuid}: attach_info has no asked_type")
    if observed.mdevs.get(handle.uuid) == MdevDevice(handle.uuid, type_id, handle.device):
        return _there(handle, observed, handle.uuid)
    sentence = f"make {handle.uuid} of type {type_id} on {handle.device}"
    args = {"parent": handle.device, "type": type_id}
    return Task(handle, Outcome.READY, Step(MAKE_MDEV, handle.uuid, args, True, False, sentence))


def _stays(handle: WantedHandle, observed: Observed) -> Task:
    """A card for a container stays on its driver."""
    unused = None if _may_be_held(handle, observed) else entering.see_unused(entering.unit(handle))
    return Task(handle, Outcome.READY, unused)


def _there(handle: WantedHandle, observed: Observed, what: str) -> Task:
    if _may_be_held(handle, observed):
        return Task(handle, Outcome.READY)
    sentence = f"see that nobody uses {what} yet, which is there already"
    return Task(handle, Outcome.READY, Step(SEE_FREE, what, {}, True, False, sentence))


def _may_be_held(handle: WantedHandle, observed: Observed) -> bool:
    """By its own guest: what is there and was handed to nobody must be in nobody's hands."""
    return observed.handed is None or handle.uuid in observed.handed or handle.uuid in observed.entered


def _take_back(handle: WantedHandle, observed: Observed, clean: str) -> Task:
    match handle.attach_type:
        case AttachType.MDEV:
            return _take_back_mdev(handle, observed)
        case AttachType.NODES:
            return Task(handle, Outcome.ABSENT, entering.see_unused(entering.unit(handle), **{CLEAN: clean}))
        case AttachType.PCI if entering.for_container(handle):
            return Task(handle, Outcome.ABSENT, entering.see_unused(handle.device, **{CLEAN: clean}))
        case AttachType.PCI:
            return _take_back_whole(handle, observed, clean)
        case AttachType.TEST_PCI:
            return Task(handle, Outcome.ABSENT)


def _take_back_mdev(handle: WantedHandle, observed: Observed) -> Task:
    there = observed.mdevs.get(handle.uuid)
    if there is None and (handle.uuid not in observed.defined or handle.uuid in observed.adopted):
        return Task(handle, Outcome.ABSENT)
    if there is None:
        sentence = f"let nobody make {handle.uuid} again at boot"
        return Task(handle, Outcome.ABSENT, Step(DROP_MDEV, handle.uuid, {}, False, False, sentence))
    ours = MdevDevice(handle.uuid, handle.attach_info.get("asked_type", ""), handle.device)
    if there != ours:
        message = (
            f"{handle.uuid} is a {there.type_id} on {there.parent}, not the {ours.type_id} on {ours.parent} that was "
            "lent: it is left alone. Remove it by hand if nobody needs it"
        )
        return _refused(handle, Outcome.ABSENT, "mdev-not-ours", message)
    if handle.uuid in observed.adopted:
        sentence = f"see that nobody uses {handle.uuid}, which stays: Cantle did not make it"
        return Task(handle, Outcome.ABSENT, Step(SEE_FREE, handle.uuid, {}, True, False, sentence))
    sentence = f"remove {handle.uuid} of type {there.type_id} from {there.parent}"
    return Task(handle, Outcome.ABSENT, Step(DROP_MDEV, handle.uuid, {}, False, True, sentence))


def _take_back_whole(handle: WantedHandle, observed: Observed, clean: str) -> Task:
    card = handle.device
    if card in observed.kept or (card in observed.bound and card not in observed.taken):
        sentence = f"see that nobody uses {card}, which stays on {vfio.VFIO_PCI}, and reset it"
        return Task(handle, Outcome.ABSENT, Step(SEE_FREE, card, {CLEAN: clean}, True, False, sentence))
    if card not in observed.taken:
        return Task(handle, Outcome.ABSENT)
    sentence = f"reset {card} and give it back to where it came from"
    return Task(handle, Outcome.ABSENT, Step(TAKE_BACK_WHOLE, card, {CLEAN: clean}, True, True, sentence))


def _refused(handle: WantedHandle, goal: Outcome, code: str, message: str) -> Task:
    return Task(handle, goal, refusal=(code, message))
