"""PCI functions, read from ``sys/bus/pci/devices`` (Documentation/ABI/testing/sysfs-bus-pci)."""

from __future__ import annotations

from cantle.errors import BadRequest, HostError
from cantle.kernel.root import Directory, Root
from cantle.model.pci import PciAddress, PciFunction
from cantle.model.problem import Problem

DEVICES = "sys/bus/pci/devices"


def functions(root: Root) -> tuple[list[PciFunction], list[Problem]]:
    """Every PCI function, by address, and what could not be read. One unreadable function hides no other.

    A file that fails beside the ids costs its one fact (None) and gives a problem; without ids there is only the problem. A
    function that goes away while being read is not there.
    """
    found: list[PciFunction] = []
    problems: list[Problem] = []
    for name in root.names(DEVICES):
        try:
            function = _function(root.directory(f"{DEVICES}/{name}"), PciAddress.parse(name), problems)
        except (BadRequest, HostError) as error:
            problems.append(Problem(name, error.code, error.message))
            continue
        if function is not None:
            found.append(function)
    found.sort(key=lambda function: function.address)
    return found, problems


def function(root: Root, address: PciAddress) -> PciFunction | None:
    """One function now, or None when there is none at this address.

    :raises HostError: ``host-read-failed`` when one of its files cannot be read.
    """
    problems: list[Problem] = []
    found = _function(root.directory(f"{DEVICES}/{address}"), address, problems)
    if problems:
        raise HostError(problems[0].code, problems[0].message, path=root.host_path(f"{DEVICES}/{address}"))
    return found


def _function(files: Directory, address: PciAddress, problems: list[Problem]) -> PciFunction | None:
    ids = _ids(files)
    if ids is None:
        return None
    class_id, vendor_id, device_id, subsystem_vendor, subsystem_device = ids
    # Not degradable: a virtual function taken for a card would be lent twice.
    physfn = files.link_name("physfn")
    total = _number(files, "sriov_totalvfs", address, problems)
    numa_node = _number(files, "numa_node", address, problems)
    return PciFunction(
        address=address,
        vendor_id=vendor_id,
        device_id=device_id,
        class_id=class_id,
        subsystem_vendor=subsystem_vendor,
        subsystem_device=subsystem_device,
        revision=_hex(files.read_or_none("revision") or ""),
        driver=files.link_name("driver"),
        iommu_group=_group(files.link_name("iommu_group")),
        numa_node=None if numa_node is None or numa_node < 0 else numa_node,
        sriov_total=total,
        sriov_enabled=None if total is None else _number(files, "sriov_numvfs", address, problems),
        physfn=PciAddress.parse(physfn) if physfn else None,
    )


def _ids(files: Directory) -> tuple[str, str, str, str, str] | None:
    """Class, vendor, device, subsystem vendor and device. ``uevent`` holds all five in one read; a captured tree may lack it."""
    lines = (files.read_or_none("uevent") or "").split("\n")
    facts = dict(line.split("=", 1) for line in lines if "=" in line)
    if "PCI_CLASS" in facts and "PCI_ID" in facts:
        vendor, _, device = facts["PCI_ID"].lower().partition(":")
        subsystem_vendor, _, subsystem_device = facts.get("PCI_SUBSYS_ID", "").lower().partition(":")
        return facts["PCI_CLASS"].lower().zfill(6), vendor, device, subsystem_vendor, subsystem_device
    ids = [files.read_or_none(name) for name in ("class", "vendor", "device")]
    if None in ids:
        return None
    class_id, vendor, device = (_hex(text or "") for text in ids)
    return (
        class_id,
        vendor,
        device,
        _hex(files.read_or_none("subsystem_vendor") or ""),
        _hex(files.read_or_none("subsystem_device") or ""),
    )


def _hex(text: str) -> str:
    return text.lower().removeprefix("0x")


def _group(name: str | None) -> int | None:
    return int(name) if name and name.isdigit() else None


def _number(files: Directory, name: str, address: PciAddress, problems: list[Problem]) -> int | None:
    try:
        text = files.read_or_none(name)
        return int(text) if text is not None else None
    except HostError as error:
        problems.append(Problem(str(address), error.code, error.message))
    except ValueError:
        problems.append(Problem(str(address), "host-read-failed", f"/{files.rel}/{name} holds no number"))
    return None
