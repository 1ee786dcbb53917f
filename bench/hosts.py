"""An agent's rescan of a large host against the floor of re-reading only the files that change by themselves.

The host has 16 cards that are cut into mediated devices, with 16 virtual functions each. Making a mediated device changes the number in
``available_instances`` and no directory's time, so a rescan must read these again; nothing tells it that it need not. The floor does
that and nothing else: it lists the functions and those that each driver has, and reads the room of each type, the mediated devices with
their types, and whether each card answers. Goal: the rescan takes at most 1.3 times as long, starts no process, and notices a real
change. Runs are interleaved. They take one or two
milliseconds, on a busy machine mostly waiting for a turn: so the best of many rounds are compared.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from cantle import simulate
from cantle.agent import discover, mode
from cantle.agent.look import Looks
from cantle.drivers import loader
from cantle.kernel import mdev
from cantle.kernel.pci_ids import PciIds
from cantle.kernel.root import Root
from cantle.model.enabled_types import EnabledType, EnabledTypes
from cantle.simulate.description import Description, Function, MdevSpec, MdevTypeSpec
from cantle.wire.inventory import DeviceReport, InventoryReport

CARDS = 16
VIRTUAL = 16
TYPES = 12
ROUNDS = 101
GOAL = 1.3
LISTED = [
    "sys/bus/pci/devices",
    "sys/bus/mdev/devices",
    "sys/class/mdev_bus",
    "sys/class/vfio",
    "sys/class/vfio-dev",
    "sys/class/drm",
]
ENABLED = EnabledTypes((EnabledType("nvidia-223"),))


class HostRoot(Root):
    """Reads as the root of a machine does: "/" needs no look at where each opened file lies, as a captured tree does."""

    def _is_inside(self, fd: int) -> bool:  # noqa: ARG002
        return True


def main() -> int:
    """Measure, print, and return 1 when the goal is missed."""
    processes = count_processes()
    with tempfile.TemporaryDirectory() as place:
        host = simulate.build(described(), Path(place) / "host")
        for number in range(CARDS // 2):
            mdev.create(host, card(number), "nvidia-223", uuid(number))
        agent = Rescan(HostRoot(host.path))
        first = agent.rescan()
        assert agent.rescan() is first
        ours, floor = interleaved(agent.rescan, lambda: reread(host.path))
        ratio = min(ours) / min(floor)
        print(f"{CARDS} cards, {CARDS * VIRTUAL} virtual functions, {CARDS * TYPES} types, {ROUNDS} rounds")
        show("rescan of a host that has not changed", ours)
        show("floor: the volatile files and nothing else", floor)
        show("whole look, as after each change", timed(agent.whole))
        print(f"{'ratio of the best rounds':48} {ratio:8.2f}")
        mdev.create(host, card(3), "nvidia-223", uuid(CARDS))
        assert units(agent.rescan()) == units(first) - 1, "a mediated device that somebody made was not noticed"
        mdev.remove(host, uuid(CARDS))
        assert agent.rescan() == first, "that it is gone was not noticed"
    assert processes == [], f"the rescan started {processes}"
    print("a mediated device made by somebody else was noticed, and its removal; no process was started")
    print(f"goal: ratio <= {GOAL}: {'met' if ratio <= GOAL else 'MISSED'}")
    return int(ratio > GOAL)


class Rescan:
    """What an agent does at each look, without the network."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._drivers, problems = loader.load()
        assert problems == []
        self._looks = Looks(root, time.monotonic)
        self._names = PciIds(root)

    def rescan(self) -> InventoryReport:
        """A report."""
        return self._looks.report((), self.whole)

    def whole(self) -> InventoryReport:
        """A report for which everything was read."""
        view, problems = discover.look("big", self._root, ENABLED, {}, self._names)
        return discover.report(view, self._drivers, problems, "start", self._told)

    def _told(self, device: DeviceReport) -> DeviceReport:
        return msgspec.structs.replace(device, plans=mode.plans(self._root, device, {}))


def described() -> Description:
    """The host."""
    types = tuple(MdevTypeSpec(f"nvidia-{222 + one}", f"GRID T4-{one + 1}B", size=1024) for one in range(TYPES))
    offers = MdevSpec(16384, types, one_type=True, driver="nvidia-vgpu-vfio")
    functions: list[Function] = []
    for number in range(CARDS):
        whole = Function(
            card(number),
            "10de",
            "1eb8",
            "030200",
            driver="nvidia",
            iommu_group=100 * number,
            mdev=offers,
            sriov_total=VIRTUAL,
            config="de10b81e",
        )
        functions.append(whole)
        for part in range(VIRTUAL):
            functions.append(
                Function(
                    f"0000:{0x10 + number:02x}:{(4 + part) // 8:02x}.{(4 + part) % 8}",
                    "10de",
                    "1eb8",
                    "030200",
                    driver="nvidia",
                    iommu_group=100 * number + 1 + part,
                    physfn=card(number),
                )
            )
    return Description("big", iommu="intel", modules=("vfio-pci",), functions=tuple(functions))


def card(number: int) -> str:
    return f"0000:{0x10 + number:02x}:00.0"


def uuid(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def units(report: InventoryReport) -> int:
    return sum(len(one.handles) for device in report.devices for one in device.deployables)


def reread(place: str) -> None:
    """The floor."""
    for name in LISTED:
        with contextlib.suppress(FileNotFoundError):
            sorted(os.listdir(f"{place}/{name}"))
    drivers = f"{place}/sys/bus/pci/drivers"
    for name in sorted(os.listdir(drivers)):
        sorted(os.listdir(f"{drivers}/{name}"))
    parents = f"{place}/sys/class/mdev_bus"
    for name in sorted(os.listdir(parents)):
        types = os.open(f"{parents}/{name}/mdev_supported_types", os.O_RDONLY | os.O_DIRECTORY)
        for type_id in sorted(os.listdir(types)):
            read(f"{type_id}/available_instances", types)
        os.close(types)
    made = f"{place}/sys/bus/mdev/devices"
    for name in sorted(os.listdir(made)):
        os.readlink(f"{made}/{name}")
        os.readlink(f"{made}/{name}/mdev_type")
    for number in range(CARDS):
        function = os.open(f"{place}/sys/bus/pci/devices/{card(number)}", os.O_PATH | os.O_DIRECTORY)
        read("power_state", function)
        read("config", function)
        os.close(function)


def read(name: str, directory: int) -> bytes:
    fd = os.open(name, os.O_RDONLY, dir_fd=directory)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def interleaved(one: Callable[[], object], other: Callable[[], object]) -> tuple[list[float], list[float]]:
    """Milliseconds of each round of both."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for times, call in zip(found, (one, other), strict=True):
            times.append(milliseconds(call))
    return found


def timed(call: Callable[[], object]) -> list[float]:
    return [milliseconds(call) for _ in range(5)]


def milliseconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3


def show(what: str, times: list[float]) -> None:
    print(f"{what:48} {statistics.median(times):8.2f} ms median, {min(times):.2f} best")


def count_processes() -> list[str]:
    """A list that names each process this one starts from now on."""
    started: list[str] = []

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec", "os.system"):
            started.append(f"{event} {arguments[:1]}")

    sys.addaudithook(hook)
    return started


if __name__ == "__main__":
    sys.exit(main())
