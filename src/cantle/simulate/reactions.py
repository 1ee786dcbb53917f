"""What a simulated kernel does when one of its files is written: the mdev core and the PCI driver core.

Each function changes the tree or raises the OSError that the real kernel answers. Sources: drivers/vfio/mdev/mdev_sysfs.c and
mdev_core.c, drivers/base/bus.c, drivers/base/dd.c, drivers/pci/pci-sysfs.c.

Where the real kernel makes a writer wait until a process closes a device, this one answers EBUSY: a test should not hang.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator

from cantle.kernel.tools import Ran
from cantle.simulate.description import Description, Function, MdevSpec
from cantle.simulate.layout import (
    IOMMU_GROUPS,
    MDEV_DEVICES,
    MDEV_DRIVERS,
    MDEV_PARENTS,
    NO_OVERRIDE,
    PASSTHROUGH_DRIVER,
    PCI_DEVICES,
    PCI_DRIVERS,
    VFIO_NODES,
    attach_driver,
    detach_driver,
    function_path,
    lay_module,
    parents,
    write_available,
)
from cantle.simulate.node import mig_table
from cantle.simulate.tree import Tree

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CREATE = re.compile(r"(?P<device>sys/devices/.+)/mdev_supported_types/(?P<type>[^/]+)/create")
_REMOVE_MDEV = re.compile(rf"(?P<device>sys/devices/.+)/(?P<uuid>{_UUID.pattern})/remove")
_BIND = re.compile(rf"{PCI_DRIVERS}/(?P<driver>[^/]+)/(?P<verb>bind|unbind)")
_OVERRIDE = re.compile(r"sys/devices/pci.+/(?P<address>[^/]+)/driver_override")
_RESET = re.compile(r"sys/devices/pci.+/[^/]+/reset")
_REMOVE_FUNCTION = re.compile(r"sys/devices/pci.+/(?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7])/remove")
#: driver_set_override() refuses what would fill a page.
_PAGE = 4096


class Kernel:
    """The reactions of one host."""

    def __init__(self, tree: Tree, described: Description) -> None:
        self.tree = tree
        self.described = described

    def written(self, rel: str, text: str) -> None:
        """React to a write to the file at this path, free of links.

        :raises OSError: what the kernel answers.
        """
        if not self.tree.exists(rel):
            raise _error(errno.ENOENT, rel)
        if match := _CREATE.fullmatch(rel):
            self._create_mdev(match["device"], match["type"], text)
        elif match := _REMOVE_MDEV.fullmatch(rel):
            if _truth(text, rel):
                self._remove_mdev(match["device"], match["uuid"])
        elif match := _BIND.fullmatch(rel):
            (self._bind if match["verb"] == "bind" else self._unbind)(match["driver"], text)
        elif rel == "sys/bus/pci/drivers_probe":
            self._probe(text)
        elif match := _OVERRIDE.fullmatch(rel):
            self._override(rel, text)
        elif _RESET.fullmatch(rel):
            _reset(rel, text)
        elif match := _REMOVE_FUNCTION.fullmatch(rel):
            if _truth(text, rel):
                self.unplug(match["address"])
        else:
            raise _error(errno.EACCES, rel)

    def settle(self) -> None:
        """Finish or take back what a process that was killed in the middle of a write left undone."""
        for _, device, mdev in parents(self.described):
            if self.tree.exists(f"{device}/mdev_supported_types"):
                for uuid, type_id in self._mdevs_below(device, mdev):
                    if not self.tree.exists(f"{MDEV_DEVICES}/{uuid}"):
                        self._erase_mdev(device, uuid, type_id)
                write_available(self.tree, device, mdev)

    def nvidia_smi(self, address: str) -> Ran:
        """What ``nvidia-smi -i ADDRESS mig -lgi`` comes to."""
        function = self.described.function(address)
        if function is None or not function.mig:
            return Ran(6, "No MIG-enabled devices found.")
        return Ran(0, "", mig_table(function))

    def modprobe(self, module: str) -> Ran:
        """What ``modprobe`` of this module comes to, in kmod's words."""
        described = self.described
        if module not in (*described.modules, *described.loadable):
            return Ran(1, f"modprobe: FATAL: Module {module} not found in directory /lib/modules/simulated")
        if module in described.loadable:
            lay_module(self.tree, module)
        return Ran(0, "")

    def unplug(self, address: str) -> None:
        """A function leaves the bus, as by ``echo 1 > remove`` or a pulled card. Its mediated devices go with it."""
        function = self._function(address)
        device = function_path(self.described, function)
        driver = self.tree.target(f"{device}/driver")
        if driver:
            self._unbind(driver, address)
        if function.iommu_group is not None:
            self._leave_group(str(function.iommu_group), address)
        self.tree.remove(f"{PCI_DEVICES}/{address}")
        self.tree.remove(device)

    def holders(self, group: str) -> Iterator[str]:
        """Pids of the processes that have a group's VFIO node open."""
        for pid in (name for name in self.tree.names("proc") if name.isdigit()):
            for fd in self.tree.names(f"proc/{pid}/fd"):
                if os.readlink(self.tree.place(f"proc/{pid}/fd/{fd}")) == f"/{VFIO_NODES}/{group}":
                    yield pid

    def group_of(self, uuid_or_address: str) -> str:
        """IOMMU group of a mediated device or PCI function; "" for none."""
        kind = MDEV_DEVICES if _UUID.fullmatch(uuid_or_address) else PCI_DEVICES
        return self.tree.target(f"{kind}/{uuid_or_address}/iommu_group")

    def _create_mdev(self, device: str, type_id: str, text: str) -> None:
        rel = f"{device}/mdev_supported_types/{type_id}/create"
        uuid = text.removesuffix("\n").lower()
        if not _UUID.fullmatch(uuid):
            raise _error(errno.EINVAL, rel)
        if self.tree.exists(f"{MDEV_DEVICES}/{uuid}"):
            raise _error(errno.EEXIST, rel)
        mdev = self._mdev_spec(device)
        if int(self.tree.read(f"{device}/mdev_supported_types/{type_id}/available_instances") or 0) < 1:
            raise _error(errno.ENOSPC, rel)
        own = f"{device}/{uuid}"
        group = self._new_group()
        self.tree.put(f"{own}/remove", "", 0o200)
        self.tree.put(f"{own}/uevent", f"DRIVER={mdev.driver}")
        self.tree.link(f"{own}/mdev_type", f"{device}/mdev_supported_types/{type_id}")
        self.tree.link(f"{own}/driver", f"{MDEV_DRIVERS}/{mdev.driver}")
        self.tree.link(f"{own}/subsystem", "sys/bus/mdev")
        self.tree.link(f"{own}/iommu_group", f"{IOMMU_GROUPS}/{group}")
        self.tree.put(f"{IOMMU_GROUPS}/{group}/type", "DMA")
        self.tree.link(f"{IOMMU_GROUPS}/{group}/devices/{uuid}", own)
        self.tree.put(f"{VFIO_NODES}/{group}", "", 0o600)
        self.tree.link(f"{device}/mdev_supported_types/{type_id}/devices/{uuid}", own)
        # Last, since this is what makes it exist: settle() takes back anything without it.
        self.tree.link(f"{MDEV_DEVICES}/{uuid}", own)
        write_available(self.tree, device, mdev)

    def _remove_mdev(self, device: str, uuid: str) -> None:
        group = self.group_of(uuid)
        if any(self.holders(group)):
            raise _error(errno.EBUSY, f"{device}/{uuid}/remove")
        type_id = self.tree.target(f"{device}/{uuid}/mdev_type")
        self.tree.remove(f"{MDEV_DEVICES}/{uuid}")
        self._erase_mdev(device, uuid, type_id)
        write_available(self.tree, device, self._mdev_spec(device))

    def _erase_mdev(self, device: str, uuid: str, type_id: str) -> None:
        group = self.tree.target(f"{device}/{uuid}/iommu_group")
        self.tree.remove(f"{device}/mdev_supported_types/{type_id}/devices/{uuid}")
        if group:
            self._leave_group(group, uuid)
            self.tree.remove(f"{VFIO_NODES}/{group}")
        self.tree.remove(f"{device}/{uuid}")

    def _mdevs_below(self, device: str, mdev: MdevSpec) -> list[tuple[str, str]]:
        """Uuid and type of every mediated device of a parent, half-made ones too."""
        found = {
            name: self.tree.target(f"{device}/{name}/mdev_type")
            for name in self.tree.names(device)
            if _UUID.fullmatch(name)
        }
        for one in mdev.types:
            found.update(dict.fromkeys(self.tree.names(f"{device}/mdev_supported_types/{one.id}/devices"), one.id))
        return sorted(found.items())

    def _leave_group(self, group: str, member: str) -> None:
        self.tree.remove(f"{IOMMU_GROUPS}/{group}/devices/{member}")
        if not self.tree.names(f"{IOMMU_GROUPS}/{group}/devices"):
            self.tree.remove(f"{IOMMU_GROUPS}/{group}")

    def _new_group(self) -> int:
        return 1 + max((int(name) for name in self.tree.names(IOMMU_GROUPS)), default=-1)

    def _mdev_spec(self, device: str) -> MdevSpec:
        return next(mdev for _, path, mdev in parents(self.described) if path == device)

    def _function(self, text: str) -> Function:
        address = text.removesuffix("\n")
        function = self.described.function(address)
        if function is None or not self.tree.exists(f"{PCI_DEVICES}/{address}"):
            raise _error(errno.ENODEV, f"{PCI_DEVICES}/{address}")
        return function

    def _override(self, rel: str, text: str) -> None:
        if len(text) >= _PAGE:
            raise _error(errno.EINVAL, rel)
        self.tree.put(rel, text.split("\n", maxsplit=1)[0] or NO_OVERRIDE, 0o644)

    def _bind(self, driver: str, text: str) -> None:
        function = self._function(text)
        rel = f"{PCI_DRIVERS}/{driver}/bind"
        if not self._matches(function, driver):
            raise _error(errno.ENODEV, rel)
        device = function_path(self.described, function)
        if self.tree.exists(f"{device}/driver"):
            raise _error(errno.EBUSY, rel)
        if driver == PASSTHROUGH_DRIVER and function.iommu_group is None:
            raise _error(errno.EINVAL, rel)
        attach_driver(self.tree, self.described, device, function, driver)

    def _probe(self, text: str) -> None:
        """Like the kernel, this says nothing when no driver took the function: whoever writes it must look."""
        function = self._function(text)
        device = function_path(self.described, function)
        if self.tree.exists(f"{device}/driver"):
            return
        for driver in self._known(function):
            unfit = driver == PASSTHROUGH_DRIVER and function.iommu_group is None
            if self._matches(function, driver) and not unfit:
                attach_driver(self.tree, self.described, device, function, driver)
                return

    def _unbind(self, driver: str, text: str) -> None:
        function = self._function(text)
        device = function_path(self.described, function)
        rel = f"{PCI_DRIVERS}/{driver}/unbind"
        if self.tree.target(f"{device}/driver") != driver:
            raise _error(errno.ENODEV, rel)
        lends_mdevs = function.mdev is not None and self.tree.exists(f"{MDEV_PARENTS}/{function.address}")
        mdevs = [uuid for uuid, _ in self._mdevs_below(device, function.mdev)] if function.mdev and lends_mdevs else []
        groups = [self.group_of(uuid) for uuid in mdevs]
        if driver == PASSTHROUGH_DRIVER:
            groups.append(str(function.iommu_group))
        if any(pid for group in groups for pid in self.holders(group)):
            raise _error(errno.EBUSY, rel)
        for uuid in mdevs:
            self._remove_mdev(device, uuid)
        detach_driver(self.tree, self.described, device, function, driver)

    def _known(self, function: Function) -> list[str]:
        """Drivers in the order the kernel would try them: one named by driver_override, else those that know the ids."""
        return [self._override_of(function) or function.driver or "", *function.drivers]

    def _matches(self, function: Function, driver: str) -> bool:
        if not self.tree.exists(f"{PCI_DRIVERS}/{driver}/bind"):
            return False
        override = self._override_of(function)
        if override:
            return override == driver
        return driver in (function.driver, *function.drivers)

    def _override_of(self, function: Function) -> str:
        text = self.tree.read(f"{PCI_DEVICES}/{function.address}/driver_override")
        return "" if text == NO_OVERRIDE else text


def _reset(rel: str, text: str) -> None:
    if not _truth(text, rel):
        raise _error(errno.EINVAL, rel)  # reset_store(): anything but a 1 is none


def _truth(text: str, rel: str) -> bool:
    """As kstrtoul() reads it: any number but 0 is a yes."""
    try:
        return int(text.strip(), 0) != 0
    except ValueError:
        raise _error(errno.EINVAL, rel) from None


def _error(number: int, rel: str) -> OSError:
    return OSError(number, os.strerror(number), f"/{rel}")
