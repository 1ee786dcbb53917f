"""The scan of a host of 1,024 PCI functions against the floor of only reading the same files, and against ``lspci``.

The floor opens, reads and closes exactly the files that the scan read, follows the same links and lists the same directories, by the
same calls (directory handles included) in the same order: a recording root writes down what one scan asks for. Nothing is parsed,
judged or kept. Goal: the scan takes at most twice as long. Runs are interleaved, so that a busy machine slows both alike.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.unit.kernel.tree import Tree

from cantle.agent.scan import scan
from cantle.kernel.pci_ids import PciIds
from cantle.kernel.root import Directory, Root

FUNCTIONS = 1024
ROUNDS = 25
PROCESSES = 7
GOAL = 2.0


class Request(NamedTuple):
    """One request of the scan: what is done, the path, and for a directory handle the requests made through it."""

    kind: str
    path: str
    inside: list[Request]


def main() -> int:
    """Measure, print, and return 1 when the goal is missed."""
    with tempfile.TemporaryDirectory() as place:
        tree = big_host(Path(place) / "host")
        requests = recorded(tree)
        ours, floor = interleaved(lambda: look(tree.root), lambda: replay(str(tree.base), requests), ROUNDS)
        ratio = statistics.median(one / other for one, other in zip(ours, floor, strict=True))
        print(f"{FUNCTIONS} functions, {count(requests)} requests for files, links and directories, {ROUNDS} rounds")
        show("scan, as a library", ours)
        show("floor: the same reads and nothing else", floor)
        print(f"{'ratio, median of rounds':48} {ratio:8.2f}")
        against_lspci(tree)
    print(f"goal: ratio <= {GOAL}: {'met' if ratio <= GOAL else 'MISSED'}")
    return int(ratio > GOAL)


def look(root: Root) -> None:
    """What is measured: every function, judged. Names are a question of pci.ids, not of the machine."""
    assert len(scan(root, PciIds(), everything=True).rows) == FUNCTIONS


def big_host(base: Path) -> Tree:
    """A host with 16 cards of NVIDIA's VFIO framework, 8 with mediated devices on virtual functions, accelerators, network, disks."""
    tree = Tree(base)
    for number in range(16):
        card = address(0, number, 0)
        tree.function(card, "10de:26b9", "030200", driver="nvidia", group=number, sriov=(32, 24))
        parts = [address(0, number, part) for part in range(4, 28)]
        tree.virtual_functions(card, "10de:26b9", parts, first_group=1000 + 32 * number, driver="nvidia")
        for part in parts:
            tree.attribute(part, "nvidia/current_vgpu_type", "0\n")
    for number in range(16, 24):
        card = address(0, number, 0)
        tree.function(card, "10de:25b6", "030200", driver="nvidia", group=number, sriov=(16, 16))
        parts = [address(0, number, part) for part in range(4, 20)]
        tree.virtual_functions(card, "10de:25b6", parts, first_group=2000 + 32 * number, driver="nvidia")
        for part in parts:
            tree.parent(part, {f"nvidia-{kind}": (f"NVIDIA A2-{kind}", int(kind == 747)) for kind in range(742, 748)})
    for number in range(24, 32):
        tree.function(address(0, number, 0), "1002:74a1", "120000", driver="amdgpu", group=number, sriov=(8, 0))
    for number in range(32):
        port = address(1, number, 0)
        tree.function(port, "8086:1593", "020000", driver="ice", group=100 + number, sriov=(64, 8))
        for devfn in range(1, 9):
            part = address(1, number, devfn)
            tree.function(part, "8086:1889", "020000", driver="iavf", group=3000 + 32 * number + devfn, physfn=port)
    number = 0
    while len(tree.places) < FUNCTIONS:
        ids, class_id, driver = ("8086:352a", "060400", "pcieport") if number % 2 else ("144d:a80a", "010802", "nvme")
        tree.function(address(2 + number // 256, number % 256, 0), ids, class_id, driver=driver, group=200 + number)
        number += 1
    return tree


def address(domain: int, bus: int, devfn: int) -> str:
    return f"{domain:04x}:{bus:02x}:{devfn >> 3:02x}.{devfn & 7}"


class RecordingRoot(Root):
    """Writes down every request that reaches the kernel's files."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.requests: list[Request] = []

    def read_bytes(self, rel: str) -> bytes:
        self.requests.append(Request("read", rel, []))
        return super().read_bytes(rel)

    def link(self, rel: str) -> str | None:
        self.requests.append(Request("link", rel, []))
        return super().link(rel)

    def names(self, rel: str) -> list[str]:
        self.requests.append(Request("list", rel, []))
        return super().names(rel)

    def exists(self, rel: str) -> bool:
        self.requests.append(Request("stat", rel, []))
        return super().exists(rel)

    def directory(self, rel: str) -> Directory:
        self.requests.append(Request("open", rel, []))
        return RecordingDirectory(super().directory(rel), self.requests[-1].inside)


class RecordingDirectory(Directory):
    """The same for a directory handle."""

    __slots__ = ("_requests",)

    def __init__(self, plain: Directory, requests: list[Request]) -> None:
        super().__init__(plain.rel, plain._fd)
        self._requests = requests

    def head_or_none(self, name: str, size: int) -> bytes | None:
        self._requests.append(Request("read", name, []))
        return super().head_or_none(name, size)

    def link_name(self, name: str) -> str | None:
        self._requests.append(Request("link", name, []))
        return super().link_name(name)

    def has(self, name: str) -> bool:
        self._requests.append(Request("stat", name, []))
        return super().has(name)

    def directory_or_none(self, name: str) -> Directory | None:
        self._requests.append(Request("open", name, []))
        plain = super().directory_or_none(name)
        return None if plain is None else RecordingDirectory(plain, self._requests[-1].inside)


def recorded(tree: Tree) -> list[Request]:
    """What one scan asks for, in order."""
    root = RecordingRoot(tree.base)
    look(root)
    return root.requests


def count(requests: list[Request]) -> int:
    """How many single requests these are."""
    return sum(1 + count(request.inside) for request in requests)


def replay(base: str, requests: list[Request]) -> None:
    """The floor."""
    for kind, rel, inside in requests:
        path = f"{base}/{rel}"
        try:
            if kind == "open":
                replay_inside(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), inside)
            elif kind == "read":
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                while os.read(fd, 1 << 16):
                    pass
                os.close(fd)
            elif kind == "link":
                os.readlink(path)
            elif kind == "list":
                os.listdir(path)
            else:
                os.stat(path)
        except OSError:
            pass


def replay_inside(place: int, requests: list[Request]) -> None:
    """The floor of one directory handle, which is closed at the end."""
    for kind, name, inside in requests:
        try:
            if kind == "read":
                fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=place)
                os.read(fd, 4096)
                os.close(fd)
            elif kind == "link":
                os.readlink(name, dir_fd=place)
            elif kind == "open":
                replay_inside(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place), inside)
            else:
                os.stat(name, dir_fd=place)
        except OSError:
            pass
    os.close(place)


def interleaved(one: Callable[[], None], other: Callable[[], None], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of CPU of both, round by round, after a round to warm up."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for run, kept in zip((one, other), times, strict=True):
            start = time.process_time()
            run()
            if number:
                kept.append(time.process_time() - start)
    return times


def against_lspci(tree: Tree) -> None:
    """Whole processes, by the clock: on the same tree, and on this machine."""
    if shutil.which("lspci") is None:
        print("lspci is not installed here: not compared")
        return
    sysfs = f"sysfs.path={tree.base}/sys/bus/pci"
    pairs = {
        "the tree": (["--root", str(tree.base)], ["-A", "linux-sysfs", "-O", sysfs]),
        "this machine": ([], []),
    }
    for what, (ours, theirs) in pairs.items():
        cantle = [sys.executable, "-m", "cantle.cli.main", "scan", "--all", "-o", "json", *ours]
        lspci = ["lspci", *theirs, "-vmmk", "-D"]
        scans, dumps = interleaved_processes(cantle, lspci)
        show(f"cantle scan --all -o json, {what}", scans)
        show(f"lspci -vmmk -D, {what}", dumps)


def interleaved_processes(one: list[str], other: list[str]) -> tuple[list[float], list[float]]:
    """Seconds by the clock of two commands, round by round."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(PROCESSES + 1):
        for command, kept in zip((one, other), times, strict=True):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            if number:
                kept.append(time.perf_counter() - start)
    return times


def show(what: str, times: list[float]) -> None:
    """A line: median, least and most, in milliseconds."""
    least, middle, most = (1000 * figure(times) for figure in (min, statistics.median, max))
    print(f"{what:48} {middle:8.1f} ms  ({least:.1f} to {most:.1f})")


if __name__ == "__main__":
    sys.exit(main())
