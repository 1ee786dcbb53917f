"""PCI functions, read from ``sys/bus/pci/devices`` (the kernel's Documentation/ABI/testing/sysfs-bus-pci)."""

from __future__ import annotations

import re

from cantle.errors import BadRequest, HostError
from cantle.kernel.root import Directory, Root
from cantle.model.classify import NVIDIA
from cantle.model.pci import CARD_CLASSES, PciAddress, PciFunction
from cantle.model.problem import Problem

DEVICES = "sys/bus/pci/devices"

#: Power states in which reading a function's configuration space wakes nobody. That of a function without a driver is not known to the
#: kernel (pci_device_remove): no driver, nobody who would have put it to sleep.
AWAKE = frozenset({"D0", "unknown"})

#: As the kernel's pci_uevent() writes them, in lower case; the class has no leading zeros.
_UEVENT_IDS = re.compile(
    r"pci_class=([0-9a-f]{1,6})\npci_id=([0-9a-f]{4}):([0-9a-f]{4})\npci_subsys_id=([0-9a-f]{4}):([0-9a-f]{4})"
)
_FILE_IDS = re.compile(r"0x([0-9a-f]{6}) 0x([0-9a-f]{4}) 0x([0-9a-f]{4})")


def functions(root: Root) -> tuple[list[PciFunction], list[Problem]]:
    """Every PCI function, by address, and what could not be read. One unreadable function hides no other.

    A file that fails beside the ids costs its one fact (None) and gives a problem; without ids there is only the
    problem. A function that goes away while being read is not there.
    """
    found: list[PciFunction] = []
    problems: list[Problem] = []
    for name in root.names(DEVICES):
        try:
            with root.directory(f"{DEVICES}/{name}") as files:
                found.append(_function(files, PciAddress.parse(name), problems))
        except HostError as error:
            if name in root.names(DEVICES):
                problems.append(Problem(name, error.code, error.message))
        except BadRequest as error:
            problems.append(Problem(name, error.code, f"/{DEVICES}: {error.message}"))
    found.sort(key=lambda function: function.address)
    return found, problems


def function(root: Root, address: PciAddress) -> PciFunction:
    """One function as it is now.

    :raises HostError: ``host-read-failed`` when one of its files cannot be read; its errno is ENOENT when there is no
        function at this address.
    """
    problems: list[Problem] = []
    rel = f"{DEVICES}/{address}"
    with root.directory(rel) as files:
        found = _function(files, address, problems)
    for problem in problems:
        raise HostError(problem.code, problem.message, path=root.host_path(rel))
    return found


def _function(files: Directory, address: PciAddress, problems: list[Problem]) -> PciFunction:
    class_id, vendor_id, device_id, subsystem_vendor, subsystem_device = _ids(files)
    # A failure here gives up the function: a virtual function taken for a card could be lent twice.
    physfn = files.link_name("physfn")
    iommu_group = files.link_name("iommu_group")
    numa_node = _number(files, "numa_node", address, problems)
    sriov_total = _number(files, "sriov_totalvfs", address, problems) if physfn is None else None
    is_card = class_id[:4] in CARD_CLASSES and physfn is None
    return PciFunction(
        address=address,
        vendor_id=vendor_id,
        device_id=device_id,
        class_id=class_id,
        subsystem_vendor=subsystem_vendor,
        subsystem_device=subsystem_device,
        revision=(files.read_or_none("revision") or "").removeprefix("0x"),
        driver=files.link_name("driver"),
        iommu_group=int(iommu_group) if iommu_group and iommu_group.isdigit() else None,
        numa_node=None if numa_node == -1 else numa_node,
        sriov_total=sriov_total,
        sriov_enabled=None if sriov_total is None else _number(files, "sriov_numvfs", address, problems),
        physfn=PciAddress.parse(physfn) if physfn else None,
        vgpu_files=physfn is not None and vendor_id == NVIDIA and files.has("nvidia"),
        dead=vendor_id == "ffff" or (is_card and _reads_ones(files)),
    )


def _ids(files: Directory) -> tuple[str, str, str, str, str]:
    """Class, vendor, device, subsystem vendor and device. ``uevent`` has all five; a captured tree may lack it."""
    match = _UEVENT_IDS.search((files.read_or_none("uevent") or "").lower())
    if match is not None:
        class_id, vendor, device, subsystem_vendor, subsystem_device = match.groups()
        return class_id.zfill(6), vendor, device, subsystem_vendor, subsystem_device
    text = " ".join(files.read_or_none(name) or "" for name in ("class", "vendor", "device"))
    match = _FILE_IDS.fullmatch(text)
    if match is None:
        raise HostError(
            "host-read-failed",
            f"/{files.rel} does not tell class, vendor and device: neither uevent nor the files of these names",
            path=f"/{files.rel}",
        )
    subsystem = [(files.read_or_none(f"subsystem_{name}") or "").removeprefix("0x") for name in ("vendor", "device")]
    return match[1], match[2], match[3], subsystem[0], subsystem[1]


def _reads_ones(files: Directory) -> bool:
    """Whether the function answers every read of its configuration space with ones, as one that fell off the bus does.

    Asked only of a function that is awake: reading the space of a sleeping one would wake it, and looking must change nothing.
    (A virtual function's vendor id reads ffff by the SR-IOV specification, so they are never asked.)
    """
    if files.read_or_none("power_state") not in AWAKE:
        return False
    try:
        return files.head_or_none("config", 4) == b"\xff\xff\xff\xff"
    except HostError:
        return False


def _number(files: Directory, name: str, address: PciAddress, problems: list[Problem]) -> int | None:
    try:
        text = files.read_or_none(name)
        return None if text is None else int(text)
    except HostError as error:
        problems.append(Problem(str(address), error.code, error.message))
    except ValueError:
        problems.append(Problem(str(address), "host-read-failed", f"/{files.rel}/{name} holds no number"))
    return None
