"""Units into guests and out of them, whatever kind of guest it is. All that one lease has in a container
is one entry; a virtual machine has each unit by itself."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from cantle.attach import cdi, domain, incus, lxc
from cantle.errors import CantleError, Conflict
from cantle.kernel import container, node, nvidia
from cantle.kernel.char_device import Node
from cantle.kernel.root import Root
from cantle.kernel.undo import Undo
from cantle.model.attachment import Attachment, GuestKind
from cantle.model.intent import is_pci
from cantle.model.pci import PciAddress

#: Keys of ``attach_info`` that name a MIG slice.
GPU_INSTANCE = "gpu_instance"
COMPUTE_INSTANCE = "compute_instance"
_SLICE = re.compile(r"([0-9a-f:.]+)/gi([0-9]{1,3})/ci([0-9]{1,3})")


def nodes(root: Root, unit: str, others: Iterable[str] = ()) -> tuple[Node, ...]:
    """The device nodes of a unit, and of those others that have some now.

    :param unit: a card's address, a MIG slice as :func:`unit` names it, or a mediated device's uuid.
    :raises CantleError: the unit has none; see :mod:`cantle.kernel.node`.
    """
    found = set(_of(root, unit))
    for other in others:
        with contextlib.suppress(CantleError):  # it is not ready: its own turn says why
            found |= set(_of(root, other))
    return tuple(sorted(found))


def stands(root: Root, guest: Attachment, lease: str, unit: str, others: Iterable[str]) -> bool:
    """Whether the entry is as :func:`enter` leaves it.

    :raises CantleError: it cannot be found out.
    """
    match guest.kind:
        case GuestKind.LIBVIRT:
            return domain.stands(root, guest.name, unit)
        case GuestKind.LXC:
            return lxc.stands(root, guest.name, lease, nodes(root, unit, others))
        case GuestKind.INCUS:
            return incus.stands(root, guest.name, lease, nodes(root, unit, others))
        case GuestKind.CDI:
            wanted = nodes(root, unit, others)
            return cdi.read(root, lease) == cdi.document(cdi.LEASE_KIND, {guest.name: wanted})


def enter(root: Root, guest: Attachment, lease: str, unit: str, *, others: Iterable[str], undo: Undo) -> None:
    """Put a unit into its guest. What was done is on the stack when this raises.

    :param others: what else the lease has in the same guest.
    :raises CantleError: see :func:`cantle.attach.domain.enter`, :func:`cantle.attach.lxc.enter`, :func:`cantle.attach.incus.enter` and
        :func:`cantle.attach.cdi.write`.
    """
    match guest.kind:
        case GuestKind.LIBVIRT:
            domain.enter(root, guest.name, unit, undo)
        case GuestKind.LXC:
            lxc.enter(root, guest.name, lease, nodes(root, unit, others), undo)
        case GuestKind.INCUS:
            wanted = nodes(root, unit, others)
            lxc.check_there(root, wanted)
            incus.enter(root, guest.name, lease, wanted, undo)
        case GuestKind.CDI:
            wanted = nodes(root, unit, others)
            lxc.check_there(root, wanted)
            before = cdi.read(root, lease)
            cdi.write(root, lease, guest.name, wanted)
            undo.push(f"write the CDI file of {lease} as it was", partial(_restore, root, lease, before))


def leave(root: Root, guest: Attachment, lease: str, unit: str, *, others: Sequence[str], undo: Undo) -> None:
    """Take a unit out of its guest. Again, or after the guest has gone, is no error.

    :param others: what else the lease has in the same guest, which stays.
    :raises CantleError: see :func:`cantle.attach.domain.leave` and :func:`cantle.attach.lxc.leave`.
    """
    if guest.kind is GuestKind.LIBVIRT:
        domain.leave(root, guest.name, unit, undo)
    elif others:
        enter(root, guest, lease, others[0], others=others[1:], undo=undo)
    elif guest.kind is GuestKind.LXC:
        lxc.leave(root, guest.name, lease, undo)
    elif guest.kind is GuestKind.INCUS:
        incus.leave(root, guest.name, lease, undo)
    else:
        cdi.remove(root, lease)


def check_unused(root: Root, card: str) -> None:
    """Refuse while a process of a container has a card, or a MIG slice, open. One that has no nodes now is used by none.

    :raises Conflict: ``device-held``.
    :raises HostError: ``host-read-failed``: it cannot be found out.
    """
    container.check_unused(root, _own(root, card))


def unit(card: str, info: Mapping[str, str]) -> str:
    """A card, or the MIG slice of it that ``attach_info`` means, in a word: ``0000:af:00.0``, ``0000:af:00.0/gi1/ci0``."""
    if GPU_INSTANCE not in info:
        return card
    return f"{card}/gi{info[GPU_INSTANCE]}/ci{info.get(COMPUTE_INSTANCE, '0')}"


def _of(root: Root, unit: str) -> tuple[Node, ...]:
    slice_ = _SLICE.fullmatch(unit)
    if slice_ is not None:
        return node.of_slice(root, PciAddress.parse(slice_[1]), int(slice_[2]), int(slice_[3]))
    return node.of_card(root, PciAddress.parse(unit)) if is_pci(unit) else node.of_mdev(root, unit)


def _own(root: Root, unit: str) -> Sequence[Node]:
    """The nodes that are a unit's alone: also while what it shares with others is missing, as when nvidia-uvm was unloaded."""
    slice_ = _SLICE.fullmatch(unit)
    if slice_ is None and is_pci(unit):
        return node.own_of_card(root, PciAddress.parse(unit))
    try:
        if slice_ is None:
            return node.of_mdev(root, unit)
        minor = nvidia.minor(root, PciAddress.parse(slice_[1]))
        return () if minor is None else nvidia.mig_nodes(root, minor, int(slice_[2]), int(slice_[3]))
    except Conflict:
        return ()  # there is no such slice, or device, now


def _restore(root: Root, lease: str, before: bytes | None) -> None:
    if before is None:
        cdi.remove(root, lease)
    else:
        root.replace(cdi.path(lease), before)
