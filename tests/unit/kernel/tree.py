"""Builds trees of kernel files in a directory: the files, contents and relative links that sysfs has, as real hosts showed them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cantle.kernel.root import Root

PCI = "sys/bus/pci/devices"
GROUPS = "sys/kernel/iommu_groups"
MDEV = "sys/bus/mdev/devices"
MDEV_BUS = "sys/class/mdev_bus"


class Tree:
    """A tree that grows call by call. Every method that takes ``address`` works on a function laid before."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.places: dict[str, str] = {}
        for rel in ("sys/bus/pci/devices", "proc"):
            (base / rel).mkdir(parents=True)

    @property
    def root(self) -> Root:
        return Root(self.base)

    def file(self, rel: str, content: str | bytes) -> None:
        place = self.base / rel
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())

    def link(self, rel: str, target: str) -> None:
        """A link whose target is another place of the tree; written relative, as sysfs does."""
        place = self.base / rel
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to("../" * rel.count("/") + target)

    def function(
        self,
        address: str,
        ids: str,
        class_id: str,
        *,
        subsystem: str = "10de:157e",
        revision: str = "a1",
        driver: str | None = None,
        group: int | None = None,
        numa: int = 0,
        sriov: tuple[int, int] | None = None,
        physfn: str | None = None,
        boot_vga: bool | None = None,
        uevent: bool = True,
    ) -> None:
        """A PCI function. ``ids`` and ``subsystem`` are ``10de:25b6``, ``class_id`` six digits, ``sriov`` total and enabled."""
        vendor, device = ids.split(":")
        subvendor, subdevice = subsystem.split(":")
        place = f"sys/devices/pci{address[:-8]}:00/{address[:-8]}:00:03.0/{address}"
        self.places[address] = place
        self.file(f"{place}/class", f"0x{class_id}\n")
        self.file(f"{place}/vendor", f"0x{vendor}\n")
        self.file(f"{place}/device", f"0x{device}\n")
        self.file(f"{place}/subsystem_vendor", f"0x{subvendor}\n")
        self.file(f"{place}/subsystem_device", f"0x{subdevice}\n")
        self.file(f"{place}/revision", f"0x{revision}\n")
        self.file(f"{place}/numa_node", f"{numa}\n")
        self.file(f"{place}/power_state", "D0\n")
        self.file(f"{place}/config", bytes.fromhex(vendor)[::-1] + bytes.fromhex(device)[::-1] + bytes(60))
        if uevent:
            bound = f"DRIVER={driver}\n" if driver else ""
            self.file(
                f"{place}/uevent",
                f"{bound}PCI_CLASS={class_id.lstrip('0').upper()}\nPCI_ID={ids.upper()}\nPCI_SUBSYS_ID={subsystem.upper()}\n"
                f"PCI_SLOT_NAME={address}\nMODALIAS=pci:v0000{vendor.upper()}d0000{device.upper()}\n",
            )
        if driver:
            (self.base / f"sys/bus/pci/drivers/{driver}").mkdir(parents=True, exist_ok=True)
            self.link(f"{place}/driver", f"sys/bus/pci/drivers/{driver}")
        if group is not None:
            self.link(f"{place}/iommu_group", f"{GROUPS}/{group}")
            self.link(f"{GROUPS}/{group}/devices/{address}", place)
            self.file(f"{GROUPS}/{group}/type", "DMA-FQ\n")
        if sriov is not None:
            self.file(f"{place}/sriov_totalvfs", f"{sriov[0]}\n")
            self.file(f"{place}/sriov_numvfs", f"{sriov[1]}\n")
        if physfn is not None:
            self.link(f"{place}/physfn", self.places[physfn])
        if boot_vga is not None:
            self.file(f"{place}/boot_vga", f"{int(boot_vga)}\n")
        self.link(f"{PCI}/{address}", place)

    def virtual_functions(
        self, card: str, ids: str, addresses: Iterable[str], *, first_group: int | None, driver: str | None
    ) -> None:
        """Virtual functions of a card, each in a group of its own as NVIDIA's A2 shows them."""
        for number, address in enumerate(addresses):
            group = None if first_group is None else first_group + number
            subsystem = f"{ids[:4]}:0000"
            self.function(address, ids, "030200", subsystem=subsystem, driver=driver, group=group, physfn=card)
            self.link(f"{self.places[card]}/virtfn{number}", self.places[address])

    def parent(self, name: str, types: dict[str, tuple[str | None, int]]) -> None:
        """A parent of mediated devices: types by id, each with its name (None for no such file) and what is available."""
        place = self.places.setdefault(name, f"sys/devices/virtual/{name}/{name}")
        (self.base / place).mkdir(parents=True, exist_ok=True)
        self.link(f"{MDEV_BUS}/{name}", place)
        for type_id, (pretty, available) in types.items():
            base = f"{place}/mdev_supported_types/{type_id}"
            if pretty is not None:
                self.file(f"{base}/name", f"{pretty}\n")
            self.file(f"{base}/device_api", "vfio-pci\n")
            self.file(f"{base}/available_instances", f"{available}\n")
            self.file(f"{base}/create", "")
            (self.base / base / "devices").mkdir()

    def mdev(self, parent: str, type_id: str, uuid: str, *, group: int | None = None) -> None:
        """A mediated device that exists."""
        place = f"{self.places[parent]}/{uuid}"
        self.link(f"{place}/mdev_type", f"{self.places[parent]}/mdev_supported_types/{type_id}")
        self.file(f"{place}/remove", "")
        self.link(f"{self.places[parent]}/mdev_supported_types/{type_id}/devices/{uuid}", place)
        self.link(f"{MDEV}/{uuid}", place)
        if group is not None:
            self.link(f"{place}/iommu_group", f"{GROUPS}/{group}")

    def attribute(self, address: str, name: str, content: str | bytes) -> None:
        """One more file of a function, or another content for one."""
        self.file(f"{self.places[address]}/{name}", content)

    def without(self, address: str, name: str) -> None:
        """Take away a file of a function."""
        (self.base / self.places[address] / name).unlink()
