"""Lent units into the guests that their leases name, and out of them: as steps, and how these are carried out.

A card for a container stays on its vendor's driver: what is prepared for a virtual machine (vfio-pci) is what a container cannot use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cantle.attach import entry, start, stop
from cantle.errors import BadRequest, CantleError
from cantle.kernel.root import Root
from cantle.kernel.undo import Executors, Undo
from cantle.model.attach_handle import AttachType
from cantle.model.attachment import Attachment, GuestKind
from cantle.model.step import Step
from cantle.wire.work import Guest, WantedHandle

ENTER = "enter-guest"
LEAVE = "leave-guest"
SEE_UNUSED = "see-unused"
#: What :data:`LEAVE` is given where the guest is stopped first, and :data:`ENTER` where it is started then.
STOP = "stop"
START = "start"


def enter(handle: WantedHandle, wanted: Iterable[WantedHandle], *, start: bool = False) -> Step:
    """Into the guest, together with whatever else of its lease is wanted there.

    :param start: the guest is started, where it does not run, when it has all of that.
    """
    guest = _guest(handle)
    args = {**_args(guest), "others": " ".join(_others(handle, wanted)), **({START: "yes"} if start else {})}
    then = f", start {guest.kind}:{guest.name}" if start else ""
    return Step(ENTER, unit(handle), args, True, False, f"put {unit(handle)} into {guest.kind}:{guest.name}{then}")


def leave(handle: WantedHandle, wanted: Iterable[WantedHandle]) -> Step:
    """Out of the guest, which is stopped before if its lease says so; what else of its lease is wanted there stays."""
    guest = _guest(handle)
    args = {**_args(guest), "others": " ".join(_others(handle, wanted)), **({STOP: "yes"} if guest.stop else {})}
    first = f"stop {guest.kind}:{guest.name}, " if guest.stop else ""
    return Step(LEAVE, unit(handle), args, False, True, f"{first}take {unit(handle)} out of {guest.kind}:{guest.name}")


def see_unused(card: str, **args: str) -> Step:
    """A card that stays on its driver: no container has it open.

    :param args: see :data:`cantle.agent.converge.CLEAN`.
    """
    and_reset = ", and reset it" if args else ""
    return Step(SEE_UNUSED, card, args, True, False, f"see that no container uses {card}{and_reset}")


def guest_of(step: Step) -> str:
    """Whom a step of these is about."""
    return f"{step.args['kind']}:{step.args['name']}"


def waits(step: Step) -> bool:
    """Whether it may take as long as somebody else likes: a daemon (libvirt's, Incus's), a guest that is to let go or to shut down. What is
    done about another container is done at once, by files."""
    return step.args["kind"] in (GuestKind.LIBVIRT, GuestKind.INCUS) or STOP in step.args or START in step.args


def entered(root: Root, wanted: Iterable[WantedHandle]) -> frozenset[str]:
    """Uuids of the units that are in their guests as they shall be. What cannot be found out is not: whoever enters it finds out why."""
    wanted = tuple(wanted)
    found = set()
    for handle in wanted:
        if handle.guest is not None:
            try:
                guest = _attachment(handle.guest.kind, handle.guest.name)
                if entry.stands(root, guest, handle.guest.lease, unit(handle), _others(handle, wanted)):
                    found.add(handle.uuid)
            except CantleError:
                continue
    return frozenset(found)


def _enter(root: Root, step: Step, undo: Undo) -> str | None:
    guest, others = _attachment(step.args["kind"], step.args["name"]), step.args["others"].split()
    entry.enter(root, guest, step.args["lease"], step.target, others=others, undo=undo)
    if START in step.args and _is_whole(root, guest, step.args["lease"], [step.target, *others]):
        return start.start(root, guest)
    return None


def _is_whole(root: Root, guest: Attachment, lease: str, units: Sequence[str]) -> bool:
    """Whether all that a lease brings is in its guest."""
    try:
        return all(entry.stands(root, guest, lease, one, [other for other in units if other != one]) for one in units)
    except CantleError:
        return False  # another one is not ready: its own turn says why


def _leave(root: Root, step: Step, undo: Undo) -> str | None:
    """What was done to the guest, as a note. It is stopped for good: nothing starts it again if the unit cannot be taken out then."""
    guest, others = _attachment(step.args["kind"], step.args["name"]), step.args["others"].split()
    note = stop.stop(root, guest, step.args["lease"], step.target) if STOP in step.args else None
    entry.leave(root, guest, step.args["lease"], step.target, others=others, undo=undo)
    return note


EXECUTORS: Executors = {ENTER: _enter, LEAVE: _leave}


def _guest(handle: WantedHandle) -> Guest:
    assert handle.guest is not None  # noqa: S101 - asked for units with a guest only
    return handle.guest


def for_container(handle: WantedHandle) -> bool:
    """Whether a unit goes into a container, which uses it through its driver on the host."""
    return handle.guest is not None and handle.guest.kind != GuestKind.LIBVIRT


def for_domain(handle: WantedHandle) -> bool:
    """Whether a domain of libvirt's may have a unit: it goes into one, or nobody says where, as when Nova borrows."""
    return not for_container(handle) and handle.attach_type in (AttachType.PCI, AttachType.MDEV)


def _args(guest: Guest) -> dict[str, str]:
    return {"kind": guest.kind, "name": guest.name, "lease": guest.lease}


def unit(handle: WantedHandle) -> str:
    """By what the kernel's files, and guests' configurations, know it."""
    if handle.attach_type is AttachType.MDEV:
        return handle.uuid
    return entry.unit(handle.device, handle.attach_info)


def _others(handle: WantedHandle, wanted: Iterable[WantedHandle]) -> list[str]:
    return [unit(one) for one in wanted if one.guest == handle.guest and one.uuid != handle.uuid]


def _attachment(kind: str, name: str) -> Attachment:
    """:raises BadRequest: ``guest-kind-unknown``: a later server knows a kind that this agent does not."""
    try:
        return Attachment.parse(f"{kind}:{name}")
    except BadRequest as error:
        raise BadRequest(
            "guest-kind-unknown",
            f"this agent cannot put anything into {kind}:{name}: it knows no such guests; upgrade it",
        ) from error
