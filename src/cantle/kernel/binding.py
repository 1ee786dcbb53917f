"""Which driver has a PCI function, and changing that: ``driver_override``, ``unbind``, ``bind`` and ``drivers_probe``
(Documentation/ABI/testing/sysfs-bus-pci; drivers/base/bus.c for what each write answers).

What counts is what the kernel shows afterwards: every write is read back, and a write that fails although the state is the wanted
one (another program was faster) is a success. ``bind`` is used rather than ``drivers_probe`` where the driver is known, since only
``bind`` hands on why a driver refused.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NamedTuple

from cantle.errors import Conflict, HostError
from cantle.kernel import holders, modules
from cantle.kernel.pci import DEVICES
from cantle.kernel.root import Root
from cantle.kernel.undo import Undo
from cantle.model.pci import PciAddress

_DRIVERS_PROBE = "sys/bus/pci/drivers_probe"
#: What the kernel shows for "no override", and what clears it (an empty write would not reach it).
_NO_OVERRIDE = "(null)"
_CLEAR = "\n"

_NOT_ROOT = "only root may do this; run the agent as root"
_COMMON_SENTENCES = {
    errno.EACCES: _NOT_ROOT,
    errno.EPERM: _NOT_ROOT,
    errno.EROFS: "sysfs is mounted read-only here (a container?); run the agent on the host itself",
    errno.ENOMEM: "the kernel is out of memory for it",
    errno.EIO: "the device does not answer; it may need a power cycle of the host",
}
_OVERRIDE_SENTENCES = {errno.EINVAL: "the kernel does not take this name"}
_UNBIND_SENTENCES = {
    errno.ENODEV: "that driver does not have it",
    errno.EBUSY: "something in the kernel still uses it; see the kernel log (dmesg)",
}
_BIND_SENTENCES = {
    errno.ENODEV: "the driver does not serve this device, or its driver_override names another",
    errno.EBUSY: "a part of it is taken: another driver has it, a boot console holds its memory (see /proc/iomem), virtual"
    " functions are enabled, or a guest has its IOMMU group",
    errno.EINVAL: "the driver finds it unfit; vfio-pci says so of devices without an IOMMU group and of bridges",
    errno.EAGAIN: "the driver waits for another one that is not there yet; try again in a moment",
}
_OVERRIDE_REFUSED = "driver-override-refused"
_UNBIND_REFUSED = "driver-unbind-refused"
_BIND_REFUSED = "driver-bind-refused"
_SENTENCES = {
    _OVERRIDE_REFUSED: _OVERRIDE_SENTENCES,
    _UNBIND_REFUSED: _UNBIND_SENTENCES,
    _BIND_REFUSED: _BIND_SENTENCES,
}


def driver(root: Root, address: PciAddress) -> str | None:
    """Name of the driver that has the function now; None for none."""
    return root.link_name(f"{DEVICES}/{address}/driver")


def override(root: Root, address: PciAddress) -> str:
    """The only driver that may take the function; "" when any may."""
    text = root.read_or_none(f"{DEVICES}/{address}/driver_override") or ""
    return "" if text == _NO_OVERRIDE else text


def set_override(root: Root, address: PciAddress, wanted: str, undo: Undo) -> None:
    """Let only this driver take the function from now on; "" lets any.

    :raises HostError: ``driver-override-refused``.
    """
    before = override(root, address)
    undo.push(
        f"set driver_override of {address} to {before or 'none'} again",
        lambda: _if_there(root, address, lambda: _put_override(root, address, before)),
    )
    _put_override(root, address, wanted)


def unbind(root: Root, address: PciAddress, expected: str, undo: Undo) -> None:
    """Take the function from its driver. Nobody may have its nodes open: the kernel would wait for them without end.

    :param expected: the driver it is on. Success when it is on none.
    :raises Conflict: ``plan-outdated`` when it is on another; ``device-held``, ``holders-unknown``.
    :raises HostError: ``driver-unbind-refused``.
    """
    now = driver(root, address)
    if now is None:
        return
    if now != expected:
        raise _outdated(address, now, expected)
    allowed = override(root, address)
    undo.push(
        f"give {address} to {now} again",
        lambda: _if_there(root, address, lambda: _rebind(root, address, now, allowed)),
    )
    _unbind(root, address, now)


def bind(root: Root, address: PciAddress, wanted: str, undo: Undo) -> None:
    """Give the function, which is on no driver, to this one. Success when it has it already.

    :raises Conflict: ``driver-not-loaded``; ``plan-outdated`` when another driver has it.
    :raises HostError: ``driver-bind-refused``.
    """
    now = driver(root, address)
    if now == wanted:
        return
    if now is not None:
        raise _outdated(address, now, "none")
    undo.push(f"take {address} from {wanted} again", lambda: _leave(root, address))
    _bind(root, address, wanted)


def probe(root: Root, address: PciAddress, undo: Undo) -> str | None:
    """Let the kernel choose a driver by the function's ids, as it does at boot; the one that has it then, None for none.

    :raises HostError: ``driver-bind-refused``.
    """
    now = driver(root, address)
    if now is not None:
        return now
    undo.push(f"take {address} from its new driver again", lambda: _leave(root, address))
    change = _Change(root, address, _BIND_REFUSED, "any driver", _DRIVERS_PROBE)
    failed = change.attempt(str(address))
    taken = driver(root, address)
    if failed is not None and taken is None:
        raise change.error(failed) from failed
    return taken


def _put_override(root: Root, address: PciAddress, wanted: str) -> None:
    if override(root, address) == wanted:
        return
    change = _Change(root, address, _OVERRIDE_REFUSED, wanted or "none", f"{DEVICES}/{address}/driver_override")
    change.write(wanted or _CLEAR, lambda: override(root, address) == wanted)


def _unbind(root: Root, address: PciAddress, now: str) -> None:
    holders.check_free(root, [address])
    change = _Change(root, address, _UNBIND_REFUSED, now, f"{modules.PCI_DRIVERS}/{now}/unbind")
    change.write(str(address), lambda: driver(root, address) != now)


def _bind(root: Root, address: PciAddress, wanted: str) -> None:
    if not modules.driver_present(root, wanted):
        raise not_loaded(wanted, f"{address} cannot be given to it")
    change = _Change(root, address, _BIND_REFUSED, wanted, f"{modules.PCI_DRIVERS}/{wanted}/bind")
    change.write(str(address), lambda: driver(root, address) == wanted)


def _rebind(root: Root, address: PciAddress, wanted: str, allowed: str) -> None:
    """Way back of an unbind: the driver gets it again even if neither ids nor ``driver_override`` lead there, which is then put back."""
    if driver(root, address) == wanted:
        return
    _put_override(root, address, wanted)
    try:
        _bind(root, address, wanted)
    finally:
        _put_override(root, address, allowed)


def _leave(root: Root, address: PciAddress) -> None:
    """Way back of a bind or probe: on no driver, as before."""
    now = driver(root, address)
    if now is not None:
        _unbind(root, address, now)


def _if_there(root: Root, address: PciAddress, way_back: Callable[[], None]) -> None:
    """A function that has gone from the bus needs no way back: its state went with it."""
    if root.exists(f"{DEVICES}/{address}"):
        way_back()


class _Change(NamedTuple):
    """One write about one function: ``refused`` is the code of its error, ``name`` the driver's."""

    root: Root
    address: PciAddress
    refused: str
    name: str
    rel: str

    def write(self, text: str, reached: Callable[[], bool]) -> None:
        """Do it, and raise if the kernel does not show what was wanted."""
        failed = self.attempt(text)
        if not reached():
            raise self.error(failed) from failed

    def attempt(self, text: str) -> HostError | None:
        """Do it; the kernel's refusal if it gave one."""
        try:
            self.root.write(self.rel, text)
        except HostError as error:
            return error
        return None

    def error(self, error: HostError | None) -> HostError:
        """The kernel's answer as a sentence that says what stands in the way."""
        number = error.errno if error is not None else None
        named = f" ({errno.errorcode.get(number, str(number))})" if number is not None else ""
        return HostError(
            self.refused,
            f"{self._what()}: {self._why(error)}{named}",
            path=self.root.host_path(self.rel),
            errno=number,
            address=str(self.address),
        )

    def _what(self) -> str:
        if self.refused == _OVERRIDE_REFUSED:
            return f"driver_override of {self.address} cannot be set to {self.name}"
        if self.refused == _UNBIND_REFUSED:
            return f"{self.address} cannot be taken from the driver {self.name}"
        return f"{self.name} did not take {self.address}"

    def _why(self, error: HostError | None) -> str:
        if error is None:
            return "the kernel accepted the request but did not carry it out; see the kernel log (dmesg)"
        if not self.root.exists(f"{DEVICES}/{self.address}"):
            return "it has gone from the bus meanwhile"
        sentences = {**_COMMON_SENTENCES, **_SENTENCES[self.refused]}
        return sentences.get(error.errno or 0, error.message)


def _outdated(address: PciAddress, now: str, expected: str) -> Conflict:
    return Conflict(
        "plan-outdated",
        f"{address} is on the driver {now} now, not {expected} as when this was planned; plan again",
        address=str(address),
        driver=now,
    )


def not_loaded(name: str, consequence: str) -> Conflict:
    """The error for a driver that the kernel does not have."""
    return Conflict(
        "driver-not-loaded",
        f"the kernel has no driver {name} now, so {consequence}; load its module (mostly: modprobe {name}) and, for the"
        " next boot, name it in /etc/modules-load.d/",
        driver=name,
    )
