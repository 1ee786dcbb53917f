"""A unit as a device of a libvirt domain, for good and at once where the domain runs.

By ``virsh``, one call at a time and each with a limit: an agent that speaks libvirt's own protocol hangs when its daemon does, and needs a
library compiled for the machine. What a domain has is read from libvirt's files (:mod:`cantle.attach.domains`), before and after.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from functools import partial

from cantle.attach.domains import Domain, domains
from cantle.attach.libvirt import hostdev_xml, parts
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

#: What QEMU says of a device that its guest was asked for before and has not let go yet.
_PENDING = re.compile(r"in the process of unplug")
#: What libvirt says, and what helps.
_MENDS = (
    (
        re.compile(r"connect|recv data|End of file|Broken pipe|closed", re.IGNORECASE),
        "libvirt does not answer on this host: start its daemon (libvirtd, or virtqemud)",
    ),
    (
        re.compile(r"in use|busy", re.IGNORECASE),
        "another guest or process has the device: see virsh list and cantle who, and let it go there",
    ),
    (
        re.compile(
            r"No more available PCI|no PCI buses|no free slot|hotplug.*not supported|does not support hotplug",
            re.IGNORECASE,
        ),
        "the domain has no free slot: give it more pcie-root-port controllers, or shut it down first",
    ),
    (
        re.compile(r"Read-only file system|Permission denied|No space left", re.IGNORECASE),
        "libvirt cannot write the domain's configuration: make the disk below /etc/libvirt writable",
    ),
    (
        re.compile(r"passthrough|requires VFIO|VFIO", re.IGNORECASE),
        "the host gives no devices to virtual machines: see the IOMMU and vfio in cantle scan",
    ),
)
_NO_MEND = "libvirt's log on that host has more"


def stands(root: Root, name: str, unit: str) -> bool:
    """Whether the domain has the unit, as it runs and as it is defined.

    :param unit: a function's address, or a mediated device's uuid.
    :raises NotFound: ``guest-not-found``.
    :raises HostError: ``host-read-failed``.
    """
    return all(unit in one.devices for one in _named(root, name))


def enter(root: Root, name: str, unit: str, undo: Undo) -> None:
    """Give a unit to a domain, as it is defined and as it runs.

    :raises NotFound: ``guest-not-found``.
    :raises HostError: ``libvirt-refused``, ``tool-not-run``; what was done is on the stack.
    """
    for one in _defined_first(_named(root, name)):
        if unit not in one.devices:
            undo.push(f"take {unit} from {name} again", partial(_detach, root, one, unit))
            _call(root, "attach-device", one, unit)
    if not stands(root, name, unit):
        raise _not_borne_out(name, unit, "it has it now")


def leave(root: Root, name: str, unit: str, undo: Undo) -> None:
    """Take a unit from a domain, and see it let go. A domain that is gone, or has not got it, is no error.

    :raises Conflict: ``guest-keeps-device``: it was asked, and has not let go yet.
    :raises HostError: ``libvirt-refused``, ``tool-not-run``.
    """
    for one in _defined_first(domains(root)):
        if one.name == name and unit in one.devices:
            if not one.running:
                undo.push(f"define {name} with {unit} again", partial(_call, root, "attach-device", one, unit))
            _detach(root, one, unit)


def _detach(root: Root, state: Domain, unit: str) -> None:
    """:raises Conflict: ``guest-keeps-device``."""
    if not _has(root, state, unit):
        return
    _call(root, "detach-device", state, unit)
    left = _LETTING_GO if state.running else 0.0
    while _has(root, state, unit):
        if left <= 0:
            raise _kept(state, unit) if state.running else _not_borne_out(state.name, unit, "it has it no more")
        time.sleep(_MOMENT)
        left -= _MOMENT


def _kept(state: Domain, unit: str) -> Conflict:
    return Conflict(
        "guest-keeps-device",
        f"{state.name} was asked to let go of {unit} and has not: its system does not answer (it is paused, still starting, or has no "
        "driver for hotplug). It is asked again; or shut it down",
        guest=state.name,
        unit=unit,
    )


def _not_borne_out(name: str, unit: str, said: str) -> HostError:
    return HostError(
        "libvirt-refused",
        f"libvirt said of {name} and {unit} that {said}, and its files say otherwise: restart its daemon on that host",
    )


def _defined_first(states: Iterable[Domain]) -> list[Domain]:
    """What cannot be written down is not begun."""
    return sorted(states, key=lambda one: one.running)


def _has(root: Root, state: Domain, unit: str) -> bool:
    """Whether it still has the unit, as it runs or as it is defined, whichever was meant."""
    now = _now(root, state)
    return now is not None and unit in now.devices


def _now(root: Root, state: Domain) -> Domain | None:
    return next((one for one in domains(root) if (one.name, one.running) == (state.name, state.running)), None)


def _named(root: Root, name: str) -> list[Domain]:
    found = [one for one in domains(root) if one.name == name]
    if not found:
        raise NotFound(
            "guest-not-found",
            f"libvirt has no domain {name} on this host: 'virsh list --all' names those it has",
            guest=f"libvirt:{name}",
        )
    return found


def _call(root: Root, command: str, state: Domain, unit: str) -> None:
    """One change of one domain. What is so already, or of a domain that runs, or is there, no more, is no failure.

    :raises HostError: ``libvirt-refused``, ``tool-not-run``.
    """
    file, flag = f"{_FILES}/{unit}.xml", "--live" if state.running else "--config"
    root.replace(file, _xml(unit).encode())
    try:
        ran = root.run(["virsh", "-q", "-c", URI, command, state.name, root.host_path(file), flag], _CALL)
    finally:
        root.remove(file)
    if ran.status == 0 or (state.running and command == "detach-device" and _PENDING.search(ran.words)):
        return
    now = _now(root, state)
    if now is not None and (unit in now.devices) != (command == "attach-device"):
        mend = next((words for sign, words in _MENDS if sign.search(ran.words)), _NO_MEND)
        raise HostError(
            "libvirt-refused",
            f"virsh {command} {state.name} ({unit}, {flag}) failed: {ran.words or f'status {ran.status}'}. What helps: {mend}",
        )


def _xml(unit: str) -> str:
    if not is_pci(unit):
        return hostdev_xml(AttachType.MDEV, {}, unit)
    return hostdev_xml(AttachType.PCI, parts(PciAddress.parse(unit)), "")
