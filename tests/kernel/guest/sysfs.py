"""The kernel's files, read and written by the tests themselves, so that what they expect does not come from the code they test."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

PCI = Path("/sys/bus/pci")
MDEVS = Path("/sys/bus/mdev/devices")
PARENTS = Path("/sys/class/mdev_bus")


def write(path: Path, text: str) -> None:
    """One write, as the kernel's attributes need it. Raises OSError with the kernel's errno."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def text(path: Path) -> str:
    """An attribute's text without the newline."""
    return path.read_text().removesuffix("\n")


def function(address: str) -> Path:
    """The directory of a PCI function."""
    return PCI / "devices" / address


def driver(address: str) -> str | None:
    """The driver a function is bound to."""
    link = function(address) / "driver"
    return link.readlink().name if link.is_symlink() else None


def group(address: str) -> int | None:
    """The IOMMU group of a function."""
    link = function(address) / "iommu_group"
    return int(link.readlink().name) if link.is_symlink() else None


def mdevs() -> set[str]:
    """The uuids of all mediated devices."""
    return {path.name for path in MDEVS.iterdir()}


def available(parent: str, type_id: str) -> int:
    """How many more of a type the parent says it can make."""
    return int(text(PARENTS / parent / "mdev_supported_types" / type_id / "available_instances"))


def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Waits for something to become true. Fails with ``what`` when it does not within ``seconds``."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.1)
