"""A unit as a device of a libvirt domain, for good and at once where the domain runs.

By ``virsh``, one call at a time and each with a limit: an agent that speaks libvirt's own protocol hangs when its daemon does, and needs a
library compiled for the machine. What a domain has is read from libvirt's files (:mod:`cantle.attach.domains`), before and after.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from cantle.attach.domains import Domain, domains
from cantle.attach.libvirt import hostdev_xml
from cantle.errors import Conflict, HostError, NotFound
from cantle.kernel.root import Root
from cantle.kernel.undo import Undo
from cantle.model.attach_handle import AttachType
from cantle.model.intent import is_pci
from cantle.model.pci import PciAddress

URI = "qemu:///system"
#: Where a device's XML lies while virsh reads it.
_FILES = "run/cantle/libvirt"
#: Seconds: of one call, and for the guest to let go of a device. libvirt itself waits 5 s for that before it answers.
_CALL = 60.0
_LETTING_GO = 15.0
_MOMENT = 0.25


def stands(root: Root, name: str, unit: str) -> bool:
    """Whether the domain has the unit, as it runs and as it is defined.

    :param unit: a function's address, or a mediated device's uuid.
    :raises NotFound: ``guest-not-found``.
    :raises HostError: ``host-read-failed``.
    """
    return all(unit in one.devices for one in _named(root, name))


def enter(root: Root, name: str, unit: str, undo: Undo) -> None:
    """Give a unit to a domain, as it runs and as it is defined.

    :raises NotFound: ``guest-not-found``.
    :raises HostError: ``libvirt-refused``, ``tool-not-run``; what was done is on the stack.
    """
    lacking = [one for one in _named(root, name) if unit not in one.devices]
    if not lacking:
        return
    undo.push(f"take {unit} from {name} again", partial(_detach, root, name, unit, lacking))
    _call(root, "attach-device", name, unit, lacking)
    if not stands(root, name, unit):
        raise HostError(
            "libvirt-refused", f"libvirt said that {name} has {unit} now, and its files say that it has not"
        )


def leave(root: Root, name: str, unit: str, undo: Undo) -> None:
    """Take a unit from a domain, and see it let go. A domain that is gone, or has not got it, is no error.

    :raises Conflict: ``guest-keeps-device``: it was asked, and has not let go yet.
    :raises HostError: ``libvirt-refused``, ``tool-not-run``.
    """
    having = [one for one in domains(root) if one.name == name and unit in one.devices]
    defined = [one for one in having if not one.running]
    if defined:
        undo.push(f"define {name} with {unit} again", partial(_attach_again, root, name, unit, defined))
    _detach(root, name, unit, having)


def _detach(root: Root, name: str, unit: str, states: Sequence[Domain]) -> None:
    """:raises Conflict: ``guest-keeps-device``."""
    having = [
        one
        for one in domains(root)
        if one.name == name and unit in one.devices and one.running in {s.running for s in states}
    ]
    if not having:
        return
    _call(root, "detach-device", name, unit, having)
    left = _LETTING_GO
    while any(one.name == name and one.running and unit in one.devices for one in domains(root)):
        if left <= 0:
            raise Conflict(
                "guest-keeps-device",
                f"{name} was asked to let go of {unit} and has not: its system does not answer (it is paused, still starting, or has no "
                "driver for hotplug). It is asked again; or shut it down",
                guest=name,
                unit=unit,
            )
        time.sleep(_MOMENT)
        left -= _MOMENT


def _attach_again(root: Root, name: str, unit: str, states: Sequence[Domain]) -> None:
    _call(root, "attach-device", name, unit, states)


def _named(root: Root, name: str) -> list[Domain]:
    found = [one for one in domains(root) if one.name == name]
    if not found:
        raise NotFound("guest-not-found", f"libvirt has no domain {name} on this host", guest=f"libvirt:{name}")
    return found


def _call(root: Root, command: str, name: str, unit: str, states: Sequence[Domain]) -> None:
    file = f"{_FILES}/{unit}.xml"
    root.replace(file, _xml(unit).encode())
    flags = ["--live" if one.running else "--config" for one in states]
    try:
        ran = root.run(["virsh", "-q", "-c", URI, command, name, root.host_path(file), *flags], _CALL)
    finally:
        root.remove(file)
    if ran.status:
        raise HostError(
            "libvirt-refused", f"virsh {command} {name} ({unit}, {' '.join(flags)}) failed: {ran.words or ran.status}"
        )


def _xml(unit: str) -> str:
    if not is_pci(unit):
        return hostdev_xml(AttachType.MDEV, {}, unit)
    address = PciAddress.parse(unit)
    parts = {
        "domain": f"{address.domain:x}",
        "bus": f"{address.bus:x}",
        "device": f"{address.slot:x}",
        "function": f"{address.function:x}",
    }
    return hostdev_xml(AttachType.PCI, parts, "")
