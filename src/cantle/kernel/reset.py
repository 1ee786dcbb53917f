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
    :raises HostError: ``reset-failed``.
    """
    before = pci.function(root, address)
    method = methods(root, address)[0]
    try:
        root.write(f"{pci.DEVICES}/{address}/reset", "1")
        after = pci.function(root, address)
    except HostError as error:
        if error.errno == errno.ENOTTY:
            return None
        raise HostError(
            "reset-failed", f"{address} could not be reset ({method}): {error.message}", address=str(address)
        ) from error
    if after.dead or (after.vendor_id, after.device_id) != (before.vendor_id, before.device_id):
        answers = "nothing but ones" if after.dead else f"as {after.vendor_id}:{after.device_id}"
        raise HostError(
            "reset-failed",
            f"{address} was reset ({method}) and now answers {answers}, not as {before.vendor_id}:{before.device_id}; "
            "power-cycle the host, or take the card out",
            address=str(address),
        )
    return method
