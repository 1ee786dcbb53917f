"""Resetting a PCI function by the best method it offers, and reading it back.

``reset`` is there for a function that the kernel knows a way to reset; writing 1 takes the first of the methods that work, in the order
of ``reset_method`` (Documentation/ABI/testing/sysfs-bus-pci; drivers/pci/pci.c, ``pci_reset_fn_methods``): device_specific, acpi, flr,
af_flr, pm, bus. Kernels before 5.15 have no ``reset_method`` and do the same unseen.
"""

from __future__ import annotations

import errno

from cantle.errors import HostError
from cantle.kernel import pci
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress

#: What is said of a reset on a kernel that does not tell its methods.
UNNAMED = "kernel"


def methods(root: Root, address: PciAddress) -> tuple[str, ...]:
    """The ways in which a function can be reset, best first; none for one that cannot be."""
    place = f"{pci.DEVICES}/{address}"
    if not root.exists(f"{place}/reset"):
        return ()
    named = root.read_or_none(f"{place}/reset_method")
    return (UNNAMED,) if named is None else tuple(named.split())


def reset(root: Root, address: PciAddress) -> str | None:
    """Reset a function that offers it, and make sure that it answers as the same device as before. The caller knows that nobody has it.

    :returns: the method that the kernel tries first, which is the one it takes unless that says it cannot; None when none of them will do
        as the function sits now (``ENOTTY``): a reset of the bus, say, that would reset another function too.
    :raises HostError: ``reset-failed``: also where the kernel says ``ENOTTY`` of a function that does not come back, as it does after a
        minute of waiting for it (``pci_dev_wait``).
    """
    before = pci.function(root, address)
    method = methods(root, address)[0]
    done = True
    try:
        root.write(f"{pci.DEVICES}/{address}/reset", "1")
    except HostError as error:
        if error.errno != errno.ENOTTY:
            raise _failed(address, f"could not be reset ({method}): {error.message}") from error
        done = False
    if before.physfn is None:  # a virtual function's ids read ffff by the SR-IOV specification
        _read_back(
            root,
            address,
            f"{before.vendor_id}:{before.device_id}",
            f"was reset ({method})" if done else "could not be reset",
        )
    return method if done else None


def _read_back(root: Root, address: PciAddress, ids: str, what: str) -> None:
    """Ask the function itself. The kernel's files ``vendor``, ``device`` and ``uevent`` say what it was when it was found, and
    ``power_state`` calls one asleep that does not answer any more."""
    try:
        with root.directory(f"{pci.DEVICES}/{address}") as files:
            head = files.head_or_none("config", 4)
    except HostError as error:
        raise _failed(address, f"{what}, and cannot be read now: {error.message}") from error
    if head is None:  # a tree of files that was captured without it
        return
    vendor, device = head[:2][::-1].hex(), head[2:][::-1].hex()
    if f"{vendor}:{device}" != ids:
        answers = "nothing but ones" if vendor == device == "ffff" else f"as {vendor}:{device}"
        raise _failed(
            address, f"{what} and now answers {answers}, not as {ids}; power-cycle the host, or take the card out"
        )


def _failed(address: PciAddress, what: str) -> HostError:
    return HostError("reset-failed", f"{address} {what}", address=str(address))
