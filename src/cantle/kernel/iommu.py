"""IOMMU groups: the smallest set of functions that the hardware can keep apart (Documentation/ABI/testing/sysfs-kernel-iommu_groups)."""

from __future__ import annotations

from cantle.kernel.root import Root

GROUPS = "sys/kernel/iommu_groups"


def groups(root: Root) -> dict[int, tuple[str, ...]]:
    """Members of each group by its number: PCI addresses as sysfs writes them, mdev uuids, names of platform devices."""
    return {int(name): tuple(root.names(f"{GROUPS}/{name}/devices")) for name in root.names(GROUPS) if name.isdigit()}


def enabled(root: Root) -> bool:
    """Whether the kernel keeps devices apart by an IOMMU: there is at least one group."""
    return bool(root.names(GROUPS))
