"""What a PCI function is, by class code and vendor tables. Pure rules: nothing is read, and no English word decides.

Class codes alone do not do. An AMD Instinct MI300X is a processing accelerator [1200] and a GPU; a Xilinx FPGA has the same
class and is none; a BMC's screen is a VGA controller [0300] like a GeForce. Hence the tables. Ids are those of the public
PCI ID repository and of the Linux drivers named beside them.
"""

from __future__ import annotations

from cantle.model.device import DeviceType
from cantle.model.pci import (
    ACCELERATOR,
    CARD_CLASSES,
    DISPLAY_3D,
    DISPLAY_CLASSES,
    MAX_ASSIGNABLE_DOMAIN,
    OTHER_BRIDGE,
    VGA,
    PciFunction,
)

NVIDIA = "10de"
AMD = "1002"
INTEL = "8086"

#: One word a vendor: what traits are made of (spec S0.5).
VENDOR_WORDS = {
    NVIDIA: "NVIDIA",
    AMD: "AMD",
    INTEL: "INTEL",
    "1022": "AMD",
    "10ee": "XILINX",
    "1172": "ALTERA",
    "15b3": "MELLANOX",
    "1d0f": "AMAZON",
    "1da3": "HABANA",
    "19e5": "HUAWEI",
    "1bd4": "INSPUR",
    "1e36": "ENFLAME",
    "1ed5": "MOORE_THREADS",
    "1a03": "ASPEED",
    "102b": "MATROX",
}

#: Makers of nothing but management controllers' screens, as far as servers go.
_BMC_VENDORS = frozenset({"1a03", "102b", "18ca"})
#: ES1000 (drivers/gpu/drm/radeon), Hi171x iBMC (drivers/gpu/drm/hisilicon/hibmc).
_BMC_DEVICES = frozenset({(AMD, "515e"), ("19e5", "1711")})

#: Screens that a hypervisor emulates: their vendors' display functions have nothing else behind them.
#: QEMU stdvga/bochs, virtio, QXL, Cirrus, VMware, VirtualBox, Hyper-V, Parallels.
_VIRTUAL_VENDORS = frozenset({"1234", "1af4", "1b36", "1013", "15ad", "80ee", "1414", "1ab8"})

#: Vendors whose processing accelerators [1200] are GPUs: AMD's Instinct from MI300 on.
_GPU_ACCELERATOR_VENDORS = frozenset({AMD})

_FPGA_VENDORS = frozenset({"10ee", "1172", "1bd4"})
#: Intel's FPGA cards among its other accelerators, physical and virtual functions (drivers/fpga/dfl-pci.c).
_INTEL_FPGAS = frozenset(["09c4", "09c5", "0b2b", "0b2c", "0b30", "bcbd", "bcbf", "bcc0", "bcc1", "bcce", "bccf"])

#: QuickAssist, physical and virtual functions (drivers/crypto/intel/qat).
_INTEL_QATS = frozenset(
    ["0435", "0443", "19e2", "19e3", "37c8", "37c9", "6f54", "6f55"]
    + [f"{number:04x}" for number in range(0x4940, 0x494A)]
)

_NVME = "010802"


def vendor_word(vendor_id: str) -> str:
    """The vendor as one upper-case word for traits: ``NVIDIA`` for 10de, the id itself (``1D1D``) for one we have no word for."""
    return VENDOR_WORDS.get(vendor_id, vendor_id.upper())


def is_virtual_function(function: PciFunction) -> bool:
    """Whether it is an SR-IOV virtual function. Such a one is a part of a card and never counts as one."""
    return function.physfn is not None


def is_bmc_display(function: PciFunction) -> bool:
    """Whether it is the screen of a management controller."""
    if function.class_code not in DISPLAY_CLASSES:
        return False
    return function.vendor_id in _BMC_VENDORS or (function.vendor_id, function.device_id) in _BMC_DEVICES


def is_virtual_display(function: PciFunction) -> bool:
    """Whether it is a screen that a hypervisor emulates for the virtual machine we run in."""
    return function.class_code in DISPLAY_CLASSES and function.vendor_id in _VIRTUAL_VENDORS


def is_gpu(function: PciFunction) -> bool:
    """Whether it is a graphics processor that could do work for a guest: no virtual function, no mere screen, no FPGA."""
    if is_virtual_function(function) or is_bmc_display(function) or is_virtual_display(function):
        return False
    if function.class_code == ACCELERATOR:
        return function.vendor_id in _GPU_ACCELERATOR_VENDORS
    return function.class_code in DISPLAY_CLASSES


def is_card(function: PciFunction) -> bool:
    """Whether it is a whole accelerator of any kind: a GPU or another processing accelerator, and no virtual function."""
    return is_gpu(function) or (function.class_code == ACCELERATOR and not is_virtual_function(function))


def is_fabric(function: PciFunction) -> bool:
    """Whether it is an NVSwitch: a bridge [0680] of NVIDIA that joins GPUs. Lent with them or not at all."""
    return function.class_code == OTHER_BRIDGE and function.vendor_id == NVIDIA


def is_shown(function: PciFunction) -> bool:
    """Whether ``cantle scan`` shows it without ``--all``: every display, 3D and processing-accelerator function."""
    return function.class_code in CARD_CLASSES


def is_too_wide(function: PciFunction) -> bool:
    """Whether its domain does not fit the 16 bits that guests' configurations have for it (VMD, some clouds)."""
    return function.address.domain > MAX_ASSIGNABLE_DOMAIN


def device_type(function: PciFunction) -> DeviceType:
    """The accelerator API's type of a function (contract section 1.5). A virtual function has the type of its card."""
    if function.class_code in DISPLAY_CLASSES:
        return DeviceType.GPU
    if function.class_code == ACCELERATOR:
        return _accelerator_type(function)
    if function.vendor_id == INTEL and function.device_id in _INTEL_QATS:
        return DeviceType.QAT
    if function.class_id == _NVME:
        return DeviceType.NVME
    return {"01": DeviceType.SSD, "02": DeviceType.NIC}.get(function.class_id[:2], DeviceType.PCI)


def _accelerator_type(function: PciFunction) -> DeviceType:
    if function.vendor_id in _GPU_ACCELERATOR_VENDORS:
        return DeviceType.GPU
    if function.vendor_id in _FPGA_VENDORS or (function.vendor_id == INTEL and function.device_id in _INTEL_FPGAS):
        return DeviceType.FPGA
    return DeviceType.AICHIP


#: Base class -> what people call it.
_KINDS = {
    "01": "storage",
    "02": "network",
    "03": "display",
    "04": "multimedia",
    "05": "memory",
    "06": "bridge",
    "07": "communication",
    "08": "system",
    "09": "input",
    "0b": "processor",
    "0c": "serial bus",
    "0d": "wireless",
    "10": "encryption",
    "11": "signal processing",
    "12": "accelerator",
    "ff": "unassigned",
}
_KINDS_OF_CODES = {VGA: "VGA", DISPLAY_3D: "3D", "0403": "audio", "0c03": "USB", "0604": "PCI bridge"}


def kind_words(function: PciFunction) -> str:
    """What sort of function it is, by its class, for people to read: ``3D``, ``network``, ``accelerator``."""
    return _KINDS_OF_CODES.get(function.class_code) or _KINDS.get(function.class_id[:2], "device")
