"""What tells a card from another of its model: NVIDIA's GPU UUID, AMD's unique id, the PCI Express Device Serial Number.

Which of them can be read depends on the driver a card is on: the first two are told by their makers' drivers alone, the third is in the
card's configuration space whatever it is on.
"""

from __future__ import annotations

import re
import struct

from cantle.errors import HostError
from cantle.kernel.pci import AWAKE, DEVICES
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress

#: Of a card whose driver has not started it yet, NVIDIA's shows question marks in the place of the digits.
_GPU_UUID = re.compile(r"^GPU UUID:\s*(GPU-[0-9a-f-]{36})\s*$", re.MULTILINE)
#: amdgpu's ``unique_id``: 64 bits in hex, without 0x; 0 for none (drivers/gpu/drm/amd/pm/amdgpu_pm.c).
_UNIQUE_ID = re.compile(r"[0-9a-f]{1,16}")

#: PCI Express Base Specification 7.6: the extended capabilities begin here, and each header names its id, version and successor.
_EXTENDED = 0x100
_SPACE = 4096
_SERIAL_NUMBER = 0x0003
_NONE = frozenset({0, 0xFFFF_FFFF_FFFF_FFFF})


def own(root: Root, address: PciAddress) -> dict[str, str]:
    """What can be read of it now: ``gpu_uuid``, ``uuid`` (AMD's), ``serial`` (as lspci writes it: ``00-04-4b-ff-ff-12-34-56``).

    Looking changes nothing: the configuration space of a sleeping card is not read, which would wake it. Beyond its first 64 bytes only
    root may read it. What cannot be read is not there.
    """
    found = {
        "gpu_uuid": _gpu_uuid(root, address),
        "uuid": _unique_id(root, address),
        "serial": _serial_number(root, address),
    }
    return {name: text for name, text in found.items() if text is not None}


def serial_number(space: bytes) -> str | None:
    """The Device Serial Number in a configuration space; None where there is none, or it is all zeros or all ones."""
    place, seen = _EXTENDED, set[int]()
    while place >= _EXTENDED and place not in seen and place + 12 <= len(space):
        seen.add(place)
        (header,) = struct.unpack_from("<I", space, place)
        if header & 0xFFFF == _SERIAL_NUMBER:
            (number,) = struct.unpack_from("<Q", space, place + 4)
            return None if number in _NONE else number.to_bytes(8, "big").hex("-")
        place = header >> 20 & 0xFFC
    return None


def _gpu_uuid(root: Root, address: PciAddress) -> str | None:
    text = _read(root, f"proc/driver/nvidia/gpus/{address}/information")
    found = _GPU_UUID.search(text)
    return None if found is None else found[1]


def _unique_id(root: Root, address: PciAddress) -> str | None:
    text = _read(root, f"{DEVICES}/{address}/unique_id").strip()
    return text if _UNIQUE_ID.fullmatch(text) and int(text, 16) not in _NONE else None


def _read(root: Root, rel: str) -> str:
    try:
        return root.read_or_none(rel) or ""
    except HostError:  # a driver that does not answer, or no right: the card is not refused for that
        return ""


def _serial_number(root: Root, address: PciAddress) -> str | None:
    try:
        with root.directory(f"{DEVICES}/{address}") as files:
            if files.read_or_none("power_state") not in AWAKE:
                return None
            return serial_number(files.head_or_none("config", _SPACE) or b"")
    except HostError:
        return None
