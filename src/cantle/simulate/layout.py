"""Laying out a simulated host's files as the kernel shows them right after boot, and what a driver makes appear and go.

Shapes: Documentation/ABI/testing/sysfs-bus-pci, sysfs-bus-vfio-mdev, sysfs-kernel-iommu_groups.
"""

from __future__ import annotations

from collections.abc import Iterator

from cantle.simulate import node
from cantle.simulate.description import Description, Function, MdevSpec, Parent
from cantle.simulate.memory_node import lay_memory_nodes
from cantle.simulate.tree import Tree

PCI_DEVICES = "sys/bus/pci/devices"
PCI_DRIVERS = "sys/bus/pci/drivers"
MDEV_DEVICES = "sys/bus/mdev/devices"
MDEV_DRIVERS = "sys/bus/mdev/drivers"
MDEV_PARENTS = "sys/class/mdev_bus"
IOMMU_GROUPS = "sys/kernel/iommu_groups"
VFIO_NODES = "dev/vfio"
PASSTHROUGH_DRIVER = "vfio-pci"
NO_OVERRIDE = "(null)"
PCI_IDS = "usr/share/misc/pci.ids"
#: Everything a reboot makes anew.
KERNEL_DIRECTORIES = ("sys", "proc", "dev")


def lay(tree: Tree, described: Description) -> None:
    """The whole host, as after boot."""
    for rel in (PCI_DEVICES, MDEV_DEVICES, IOMMU_GROUPS, "sys/class/iommu", "sys/module", "proc", "dev"):
        tree.directory(rel)
    tree.put("proc/cmdline", described.cmdline)
    tree.put("proc/cpuinfo", f"vendor_id\t: {'AuthenticAMD' if described.iommu == 'amd' else 'GenuineIntel'}")
    tree.put("sys/bus/pci/drivers_probe", "", 0o200)
    tree.put("sys/bus/pci/rescan", "", 0o200)
    for module in described.modules:
        tree.directory(f"sys/module/{module.replace('-', '_')}")
    if "vfio" in described.modules:
        tree.put(f"{VFIO_NODES}/vfio", "", 0o666)
    for driver in _drivers(described):
        lay_driver(tree, driver)
    if described.iommu != "none":
        unit = "dmar0" if described.iommu == "intel" else "ivhd0"
        tree.directory(f"sys/devices/virtual/iommu/{unit}")
        tree.link(f"sys/class/iommu/{unit}", f"sys/devices/virtual/iommu/{unit}")
    for function in described.functions:
        lay_function(tree, described, function)
    lay_memory_nodes(tree, described)
    for parent in described.parents:
        tree.directory(parent_path(parent))
        lay_parent(tree, parent.name, parent_path(parent), parent.mdev)
    _lay_names(tree, described)


def lay_driver(tree: Tree, driver: str) -> None:
    """A PCI driver that the kernel has, bound to nothing yet."""
    for name in ("bind", "unbind", "new_id", "remove_id"):
        tree.put(f"{PCI_DRIVERS}/{driver}/{name}", "", 0o200)


def lay_module(tree: Tree, module: str) -> None:
    """A module that has been loaded after boot."""
    tree.directory(f"sys/module/{module.replace('-', '_')}")
    if module == PASSTHROUGH_DRIVER:
        tree.put(f"{VFIO_NODES}/vfio", "", 0o666)
        lay_driver(tree, module)


def _lay_names(tree: Tree, described: Description) -> None:
    """The system's ``pci.ids``: vendors at the margin, their devices behind a tab."""
    lines = []
    for vendor in sorted({key.partition(":")[0] for key in described.names}):
        lines.append(f"{vendor}  {described.names.get(vendor, vendor)}")
        devices = sorted(key for key in described.names if key.startswith(f"{vendor}:"))
        lines += [f"\t{key.partition(':')[2]}  {described.names[key]}" for key in devices]
    tree.put(PCI_IDS, "\n".join(lines))


def function_path(described: Description, function: Function) -> str:
    """The directory of a function below the bridges it sits behind."""
    chain = [function.address]
    above = function.behind
    while above is not None:
        chain.insert(0, above)
        bridge = described.function(above)
        above = bridge.behind if bridge is not None else None
    domain_and_bus = chain[0].rsplit(":", 1)[0]
    return f"sys/devices/pci{domain_and_bus}/{'/'.join(chain)}"


def lay_function(tree: Tree, described: Description, function: Function) -> None:
    """One PCI function, bound to its driver."""
    device = function_path(described, function)
    subsystem_vendor, subsystem_device = function.subsystem.split(":")
    files = {
        "class": f"0x{function.class_id}",
        "vendor": f"0x{function.vendor}",
        "device": f"0x{function.device}",
        "subsystem_vendor": f"0x{subsystem_vendor}",
        "subsystem_device": f"0x{subsystem_device}",
        "revision": f"0x{function.revision}",
        "numa_node": str(function.numa_node),
        "enable": "0",
        "power_state": function.power_state,
        "modalias": _modalias(function),
    }
    if function.boot_vga is not None:
        files["boot_vga"] = str(int(function.boot_vga))
    enabled = [one for one in described.functions if one.physfn == function.address]
    if function.sriov_total is not None:
        files |= {"sriov_totalvfs": str(function.sriov_total), "sriov_numvfs": str(len(enabled))}
    for name, text in files.items():
        tree.put(f"{device}/{name}", text)
    if function.resets:
        tree.put(f"{device}/reset", "", 0o200)
        tree.put(f"{device}/reset_method", " ".join(function.resets), 0o644)
    if function.serial is not None:
        tree.put_bytes(f"{device}/config", node.space_with_serial(function, function.serial))
    elif function.config is not None:
        tree.put_bytes(f"{device}/config", bytes.fromhex(function.config))
    for number, one in enumerate(enabled):
        tree.link(f"{device}/virtfn{number}", function_path(described, one))
    if function.physfn is not None:
        owner = described.function(function.physfn)
        assert owner is not None  # noqa: S101 - checked when the description was read
        tree.link(f"{device}/physfn", function_path(described, owner))
    tree.put(f"{device}/driver_override", NO_OVERRIDE, 0o644)
    tree.put(f"{device}/remove", "", 0o200)
    tree.link(f"{device}/subsystem", "sys/bus/pci")
    tree.link(f"{PCI_DEVICES}/{function.address}", device)
    if function.iommu_group is not None:
        tree.put(f"{IOMMU_GROUPS}/{function.iommu_group}/type", "DMA")
        tree.link(f"{IOMMU_GROUPS}/{function.iommu_group}/devices/{function.address}", device)
        tree.link(f"{device}/iommu_group", f"{IOMMU_GROUPS}/{function.iommu_group}")
    write_uevent(tree, device, function, None)
    if function.driver is not None:
        attach_driver(tree, described, device, function, function.driver)


def attach_driver(tree: Tree, described: Description, device: str, function: Function, driver: str) -> None:
    """What binding a driver makes appear."""
    tree.link(f"{device}/driver", f"{PCI_DRIVERS}/{driver}")
    tree.link(f"{PCI_DRIVERS}/{driver}/{function.address}", device)
    write_uevent(tree, device, function, driver)
    node.lay_nodes(tree, described, device, function, driver)
    if driver == PASSTHROUGH_DRIVER and function.iommu_group is not None:
        tree.put(f"{VFIO_NODES}/{function.iommu_group}", "", 0o600)
    if function.mdev is not None and driver == function.driver:
        lay_parent(tree, function.address, device, function.mdev)


def detach_driver(tree: Tree, described: Description, device: str, function: Function, driver: str) -> None:
    """What unbinding it makes go away. Mediated devices must be gone already."""
    if function.mdev is not None and driver == function.driver:
        tree.remove(f"{MDEV_PARENTS}/{function.address}")
        tree.remove(f"{device}/mdev_supported_types")
    node.remove_nodes(tree, described, device, function, driver)
    tree.remove(f"{PCI_DRIVERS}/{driver}/{function.address}")
    tree.remove(f"{device}/driver")
    write_uevent(tree, device, function, None)
    if driver == PASSTHROUGH_DRIVER and function.iommu_group is not None:
        group = str(function.iommu_group)
        bound = tree.names(f"{PCI_DRIVERS}/{PASSTHROUGH_DRIVER}")
        if not any(tree.target(f"{PCI_DEVICES}/{other}/iommu_group") == group for other in bound):
            tree.remove(f"{VFIO_NODES}/{group}")


def lay_parent(tree: Tree, name: str, device: str, mdev: MdevSpec) -> None:
    """The types of a mediated-device parent, none of them used."""
    for one in mdev.types:
        base = f"{device}/mdev_supported_types/{one.id}"
        if one.name is not None:
            tree.put(f"{base}/name", one.name)
        if one.description is not None:
            tree.put(f"{base}/description", one.description)
        tree.put(f"{base}/device_api", one.device_api)
        tree.put(f"{base}/available_instances", "0")
        tree.put(f"{base}/create", "", 0o200)
        tree.directory(f"{base}/devices")
    tree.directory(f"{MDEV_DRIVERS}/{mdev.driver}")
    write_available(tree, device, mdev)
    tree.link(f"{MDEV_PARENTS}/{name}", device)


def write_available(tree: Tree, device: str, mdev: MdevSpec) -> None:
    """Recompute ``available_instances`` of all types of a parent from the devices that exist."""
    base = f"{device}/mdev_supported_types"
    live = {one.id: len(tree.names(f"{base}/{one.id}/devices")) for one in mdev.types}
    left = mdev.capacity - sum(one.size * live[one.id] for one in mdev.types)
    for one in mdev.types:
        others = sum(count for type_id, count in live.items() if type_id != one.id)
        available = 0 if mdev.one_type and others else left // one.size
        if one.limit is not None:
            available = min(available, one.limit - live[one.id])
        text = str(max(0, available))
        if tree.read(f"{base}/{one.id}/available_instances") != text:
            tree.put(f"{base}/{one.id}/available_instances", text)


def write_uevent(tree: Tree, device: str, function: Function, driver: str | None) -> None:
    """The function's summary, as udev reads it."""
    lines = [f"DRIVER={driver}"] if driver else []
    lines += [
        f"PCI_CLASS={function.class_id.lstrip('0').upper() or '0'}",
        f"PCI_ID={function.vendor.upper()}:{function.device.upper()}",
        f"PCI_SUBSYS_ID={function.subsystem.upper()}",
        f"PCI_SLOT_NAME={function.address}",
        f"MODALIAS={_modalias(function)}",
    ]
    tree.put(f"{device}/uevent", "\n".join(lines), 0o644)


def parents(described: Description) -> Iterator[tuple[str, str, MdevSpec]]:
    """Name, directory and slices of everything that can be a mediated-device parent on this host."""
    for function in described.functions:
        if function.mdev is not None:
            yield function.address, function_path(described, function), function.mdev
    for parent in described.parents:
        yield parent.name, parent_path(parent), parent.mdev


def parent_path(parent: Parent) -> str:
    """The directory of a parent that is no PCI function."""
    return f"sys/devices/{parent.path}"


def _drivers(described: Description) -> list[str]:
    names = {driver for one in described.functions for driver in (one.driver, *one.drivers) if driver}
    if PASSTHROUGH_DRIVER in described.modules:
        names.add(PASSTHROUGH_DRIVER)
    return sorted(names)


def _modalias(function: Function) -> str:
    vendor, device = function.vendor.upper(), function.device.upper()
    subsystem_vendor, subsystem_device = function.subsystem.upper().split(":")
    kind = function.class_id.upper()
    return (
        f"pci:v0000{vendor}d0000{device}sv0000{subsystem_vendor}sd0000{subsystem_device}"
        f"bc{kind[:2]}sc{kind[2:4]}i{kind[4:]}"
    )
