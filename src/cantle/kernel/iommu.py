"""IOMMU groups: the smallest sets of functions that the hardware keeps apart.

Facts: the kernel's Documentation/ABI/testing/sysfs-kernel-iommu_groups, Documentation/driver-api/vfio.rst and
admin-guide/kernel-parameters.txt.
"""

from __future__ import annotations

from cantle.kernel.root import Root

GROUPS = "sys/kernel/iommu_groups"
_ACPI_TABLES = "sys/firmware/acpi/tables"

#: Vendor in /proc/cpuinfo -> its ACPI table, what firmware menus call it, and the parameter that turns it on, if it needs one.
_BY_CPU = {
    "GenuineIntel": ("DMAR", "VT-d", "intel_iommu=on"),
    "AuthenticAMD": ("IVRS", "AMD-Vi (IOMMU)", None),
    "HygonGenuine": ("IVRS", "AMD-Vi (IOMMU)", None),
}
_OFF = ("iommu=off", "intel_iommu=off", "amd_iommu=off")


def groups(root: Root) -> dict[int, tuple[str, ...]]:
    """Members of each group by its number: PCI addresses as sysfs writes them, mdev uuids, names of platform devices."""
    return {int(name): members(root, int(name)) for name in root.names(GROUPS) if name.isdigit()}


def members(root: Root, group: int) -> tuple[str, ...]:
    """Names of the devices in one group; none when there is no such group."""
    return tuple(root.names(f"{GROUPS}/{group}/devices"))


def is_noiommu(root: Root, group: int) -> bool:
    """Whether the group is one of VFIO's no-IOMMU mode, in which nothing is kept apart."""
    return root.read_or_none(f"{GROUPS}/{group}/name") == "vfio-noiommu"


def enabled(root: Root) -> bool:
    """Whether the kernel keeps devices apart by an IOMMU: there is at least one group."""
    return bool(root.names(GROUPS))


def why_off(root: Root) -> str:
    """In a few words, why there is no IOMMU, and so what to do about it. Only meaningful when :func:`enabled` is false."""
    command_line = root.read_or_none("proc/cmdline")
    words = (command_line or "").split()
    for word in words:
        if word in _OFF:
            return f"kernel command line says {word}"
    cpu = root.read_or_none("proc/cpuinfo") or ""
    table, menu, parameter = next((_BY_CPU[vendor] for vendor in _BY_CPU if vendor in cpu), (None, None, None))
    tables = root.names(_ACPI_TABLES)
    if table and tables and table not in tables:
        if " hypervisor" in cpu:
            return "this is a virtual machine without a virtual IOMMU"
        return f"firmware offers none: turn on {menu} in its setup"
    if parameter and command_line is not None and parameter not in words:
        return f"kernel command line lacks {parameter}"
    return "the kernel shows no IOMMU group"
