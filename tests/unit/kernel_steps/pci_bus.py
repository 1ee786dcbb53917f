"""A PCI bus in a directory whose files answer as the kernel's do, for tests of binding, with faults on demand.

It models drivers/base/bus.c, drivers/base/dd.c and drivers/pci/pci-driver.c: ``driver_override``, matching by ids, ``bind``,
``unbind``, ``drivers_probe`` and their errnos; and vfio-pci's own refusals (drivers/vfio/pci/vfio_pci_core.c).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from cantle.errors import HostError
from cantle.kernel.root import Root

PLACE = "sys/devices/pci0000:00"
BUS = "sys/bus/pci"
GROUPS = "sys/kernel/iommu_groups"


class PciBus(Root):
    """Build it with :meth:`driver` and :meth:`function`; then give it to the code under test.

    :ivar writes: what was written, in order: (path, text).
    :ivar fault: asked before every write with its number (from 0); an errno to answer, and whether the kernel does what it was
        told all the same.
    """

    def __init__(self, path: Path) -> None:
        for rel in (f"{BUS}/devices", f"{BUS}/drivers", GROUPS, PLACE, "proc"):
            (path / rel).mkdir(parents=True, exist_ok=True)
        super().__init__(path)
        self.base = path
        self.ids: dict[str, set[str]] = {}
        self.writes: list[tuple[str, str]] = []
        self.fault: Callable[[int], tuple[int, bool] | None] = lambda _number: None
        self.put(f"{BUS}/drivers_probe", "")

    def put(self, rel: str, text: str) -> None:
        """Lay a file."""
        place = self.base / rel
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def link_to(self, rel: str, target: str) -> None:
        """Lay a symbolic link."""
        place = self.base / rel
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def driver(self, name: str, *ids: str) -> None:
        """A loaded driver that serves these ids (``10de:2235``)."""
        self.ids[name] = set(ids)
        for file in ("bind", "unbind"):
            self.put(f"{BUS}/drivers/{name}/{file}", "")

    def function(
        self,
        address: str,
        class_id: str,
        ids: str,
        *,
        driver: str | None = None,
        group: int | None = None,
        override: str = "",
        physfn: str | None = None,
        vfs: int | None = None,
    ) -> None:
        """A PCI function."""
        vendor, device = ids.split(":")
        files = {
            "class": f"0x{class_id}",
            "vendor": f"0x{vendor}",
            "device": f"0x{device}",
            "subsystem_vendor": "0x0000",
            "subsystem_device": "0x0000",
            "revision": "0xa1",
            "numa_node": "-1",
            "driver_override": override or "(null)",
            "uevent": (
                f"PCI_CLASS={class_id.lstrip('0').upper()}\nPCI_ID={ids.upper()}\nPCI_SUBSYS_ID=0000:0000\n"
                f"PCI_SLOT_NAME={address}"
            ),
        }
        if vfs is not None:
            files |= {"sriov_totalvfs": "16", "sriov_numvfs": str(vfs)}
        for name, text in files.items():
            self.put(f"{PLACE}/{address}/{name}", text + "\n")
        self.link_to(f"{BUS}/devices/{address}", f"../../../devices/pci0000:00/{address}")
        if physfn is not None:
            self.link_to(f"{PLACE}/{address}/physfn", f"../{physfn}")
        if group is not None:
            self.link_to(f"{PLACE}/{address}/iommu_group", f"../../../kernel/iommu_groups/{group}")
            self.link_to(f"{GROUPS}/{group}/devices/{address}", f"../../../../devices/pci0000:00/{address}")
        if driver is not None:
            self._attach(address, driver)

    def open_file(self, pid: int, command: str, node: str) -> None:
        """A process that has a device node open."""
        self.put(f"proc/{pid}/comm", f"{command}\n")
        self.link_to(f"proc/{pid}/fd/{len(self.names(f'proc/{pid}/fd'))}", node)

    def remove(self, address: str) -> None:
        """Pull a function out of its slot."""
        (self.base / BUS / "devices" / address).unlink()
        taken = self._driver_of(address)
        if taken:
            (self.base / BUS / "drivers" / taken / address).unlink()

    def state(self) -> dict[str, tuple[str | None, str]]:
        """(driver, override) by address: what a failed change must leave as it was."""
        return {
            address: (self._driver_of(address), self._override_of(address)) for address in self.names(f"{BUS}/devices")
        }

    def restore(self, state: dict[str, tuple[str | None, str]]) -> None:
        """Put these functions into these states, without a write."""
        for address, (driver, override) in state.items():
            taken = self._driver_of(address)
            if taken is not None:
                self._unbind(address, taken)
            if driver is not None:
                self._attach(address, driver)
            self.put(f"{PLACE}/{address}/driver_override", f"{override or '(null)'}\n")

    def write(self, rel: str, text: str) -> None:
        """The kernel's side of a write."""
        number = len(self.writes)
        self.writes.append((rel, text))
        fault = self.fault(number)
        if fault is None:
            self._answer(rel, self._react(rel, text.strip("\n")))
        else:
            code, done_all_the_same = fault
            if done_all_the_same:
                self._react(rel, text.strip("\n"))
            self._answer(rel, code)

    def _answer(self, rel: str, code: int) -> None:
        if code:
            raise HostError(
                "host-write-failed", f"cannot write /{rel}: {os.strerror(code)}", path=f"/{rel}", errno=code
            )

    def _react(self, rel: str, text: str) -> int:
        parts = rel.split("/")
        if not self.exists(rel):
            return errno.ENOENT
        if parts[-1] == "driver_override":
            self.put(f"{PLACE}/{parts[-2]}/driver_override", f"{text or '(null)'}\n")
            return 0
        if not self.exists(f"{BUS}/devices/{text}"):
            return errno.ENODEV
        if parts[-1] == "drivers_probe":
            return self._probe(text)
        return self._bind(text, parts[-2]) if parts[-1] == "bind" else self._unbind(text, parts[-2])

    def _bind(self, address: str, driver: str) -> int:
        if not self._matches(address, driver):
            return errno.ENODEV
        if self._driver_of(address) is not None:
            return errno.EBUSY
        if driver == "vfio-pci":
            if not self.exists(f"{BUS}/devices/{address}/iommu_group"):
                return errno.EINVAL
            if (self.read_or_none(f"{BUS}/devices/{address}/sriov_numvfs") or "0") != "0":
                return errno.EBUSY
        self._attach(address, driver)
        return 0

    def _unbind(self, address: str, driver: str) -> int:
        if self._driver_of(address) != driver:
            return errno.ENODEV
        (self.base / PLACE / address / "driver").unlink()
        (self.base / BUS / "drivers" / driver / address).unlink()
        return 0

    def _probe(self, address: str) -> int:
        if self._driver_of(address) is None:
            for driver in self.names(f"{BUS}/drivers"):
                if self._bind(address, driver) == 0:
                    break
        return 0

    def _attach(self, address: str, driver: str) -> None:
        self.link_to(f"{PLACE}/{address}/driver", f"../../../bus/pci/drivers/{driver}")
        self.link_to(f"{BUS}/drivers/{driver}/{address}", f"../../../../devices/pci0000:00/{address}")

    def _matches(self, address: str, driver: str) -> bool:
        override = self._override_of(address)
        if override:
            return override == driver
        ids = ":".join(self.read(f"{BUS}/devices/{address}/{name}").removeprefix("0x") for name in ("vendor", "device"))
        return ids in self.ids[driver]

    def _driver_of(self, address: str) -> str | None:
        return self.link_name(f"{BUS}/devices/{address}/driver")

    def _override_of(self, address: str) -> str:
        text = self.read(f"{BUS}/devices/{address}/driver_override")
        return "" if text == "(null)" else text
