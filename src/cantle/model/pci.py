"""PCI addresses, class codes, and what is known of one PCI function. The project's one parser and one printer of PCI addresses."""

from __future__ import annotations

import re
from typing import NamedTuple

from cantle.errors import BadRequest

# Class codes, base class and subclass (PCI Code and ID Assignment Specification): the first four digits of sysfs's ``class``.
VGA = "0300"
DISPLAY_3D = "0302"
DISPLAY_OTHER = "0380"
ACCELERATOR = "1200"
HOST_BRIDGE = "0600"
PCI_BRIDGE = "0604"
OTHER_BRIDGE = "0680"

#: Classes whose functions ``cantle scan`` always shows.
DISPLAY_CLASSES = frozenset({VGA, DISPLAY_3D, DISPLAY_OTHER})
CARD_CLASSES = DISPLAY_CLASSES | {ACCELERATOR}

#: The widest domain that libvirt, QEMU and VFIO users take; VMD and some clouds number theirs from 0x10000.
MAX_ASSIGNABLE_DOMAIN = 0xFFFF

#: The domain may be missing (lspci without -D) or eight digits wide (nvidia-smi).
_ADDRESS = re.compile(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([01]?[0-9a-fA-F])\.([0-7])")


class PciAddress(NamedTuple):
    """Where a function sits; a value, ordered as the bus is.

    ``str()`` gives the form of sysfs: ``0000:af:00.0``, lower case, at least four domain digits.
    """

    domain: int
    bus: int
    slot: int
    function: int

    @classmethod
    def parse(cls, text: str) -> PciAddress:
        """Read any usual spelling: ``0000:af:00.0``, ``af:00.0``, ``0000:AF:00.0``, ``00000000:AF:00.0``, ``10000:e1:00.0``.

        :raises BadRequest: ``bad-pci-address``.
        """
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise BadRequest(
                "bad-pci-address",
                f"{text!r} is no PCI address; write it as domain:bus:slot.function in hex, e.g. 0000:af:00.0",
                address=text,
            )
        domain, bus, slot, function = match.groups(default="0")
        return cls(int(domain, 16), int(bus, 16), int(slot, 16), int(function, 16))

    def __str__(self) -> str:
        return f"{self.domain:04x}:{self.bus:02x}:{self.slot:02x}.{self.function}"

    @property
    def slot_key(self) -> tuple[int, int, int]:
        """Equal for the functions of one slot, such as a GPU and its audio function."""
        return self.domain, self.bus, self.slot


class PciFunction(NamedTuple):
    """One PCI function as the kernel shows it. Ids are lower-case hex digits without 0x: four for ids, six for the class.

    :param driver: name of the driver bound to it, None for none.
    :param iommu_group: the group's number *now* (the kernel renumbers them), None without IOMMU.
    :param numa_node: None when the kernel does not know (its -1).
    :param sriov_total: how many virtual functions it can have; None when it has no SR-IOV capability.
    :param sriov_enabled: how many it has now; None with ``sriov_total``.
    :param physfn: of a virtual function, the physical function it belongs to; None for all others.
    :param vgpu_files: of a virtual function, it has the ``nvidia`` directory of NVIDIA's own VFIO framework (vGPUs without mdev).
    :param dead: it does not answer: its vendor id reads ffff.
    """

    address: PciAddress
    vendor_id: str
    device_id: str
    class_id: str
    subsystem_vendor: str = ""
    subsystem_device: str = ""
    revision: str = ""
    driver: str | None = None
    iommu_group: int | None = None
    numa_node: int | None = None
    sriov_total: int | None = None
    sriov_enabled: int | None = None
    physfn: PciAddress | None = None
    vgpu_files: bool = False
    dead: bool = False

    @property
    def class_code(self) -> str:
        """Base class and subclass, four digits: what :data:`CARD_CLASSES` holds and ``lspci -nn`` prints."""
        return self.class_id[:4]
