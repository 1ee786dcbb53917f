"""Names of vendors and devices from the system's ``pci.ids``, as ``lspci`` prints them. Never required."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cantle.errors import HostError
from cantle.kernel.root import Root
from cantle.model.pci import PciFunction

#: hwdata (Fedora, RHEL, SUSE, Arch), pciutils and pci.ids (Debian, Ubuntu), a copy brought up to date by update-pciids.
FILES = ("usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids", "usr/share/pci.ids", "var/lib/pciutils/pci.ids")

_NEXT_VENDOR = re.compile(rb"\n[^\t#\n]")


class PciIds:
    """The first such file below the first root that has one: a captured tree seldom brings its own.

    It has 1.5 MB and few ids are asked for: it is searched, not parsed, and not even read before the first question.
    """

    def __init__(self, *roots: Root) -> None:
        self._roots = roots
        self._data: bytes | None = None
        self._blocks: dict[str, bytes] = {}

    def name(self, function: PciFunction) -> str | None:
        """``NVIDIA Corporation TU104GL [Tesla T4]``; ``NVIDIA Corporation Device 2bb5`` for a device that the file does not know;
        None when it does not know the vendor, or there is no file."""
        block = self._block(function.vendor_id)
        vendor, _, devices = block.partition(b"\n")
        if not vendor:
            return None
        device = _entry(devices, f"\n\t{function.device_id}  ") or f"Device {function.device_id}"
        return f"{_text(vendor)} {device}"

    def _block(self, vendor_id: str) -> bytes:
        """What the file says of a vendor: its name, then a newline and the lines of its devices; empty when unknown."""
        if vendor_id not in self._blocks:
            if self._data is None:
                self._data = _load(self._roots)
            self._blocks[vendor_id] = _find(self._data, vendor_id)
        return self._blocks[vendor_id]


def _load(roots: Iterable[Root]) -> bytes:
    for root in roots:
        for file in FILES:
            try:
                return b"\n" + root.read_bytes(file)
            except HostError:
                continue  # absent or not for us: names are a courtesy
    return b""


def _find(data: bytes, vendor_id: str) -> bytes:
    start = data.find(f"\n{vendor_id}  ".encode())
    if start < 0:
        return b""
    end = _NEXT_VENDOR.search(data, start + 1)
    # The newline in front of the first device belongs to the search key of every device.
    vendor, _, devices = data[start + 7 : end.start() if end else len(data)].partition(b"\n")
    return vendor + b"\n\n" + devices + b"\n"


def _entry(devices: bytes, key: str) -> str:
    start = devices.find(key.encode())
    if start < 0:
        return ""
    start += len(key)
    return _text(devices[start : devices.find(b"\n", start)])


def _text(line: bytes) -> str:
    return line.decode(errors="replace").strip()
