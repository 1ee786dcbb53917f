"""What a graphics driver makes appear beside its card: DRM and NVIDIA's entries in ``/proc``, and the nodes.

The numbers are in different orders on purpose, as on real hosts: NVIDIA's minors count down the bus, DRM's count up it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from cantle.simulate.description import Description, Function

if TYPE_CHECKING:
    from cantle.simulate.tree import Tree

NVIDIA = "nvidia"
_AMD = "amdgpu"
#: What NVIDIA's driver says of a card that nobody has used since it was loaded.
_NOT_STARTED = "GPU-????????-????-????-????-????????????"
_DRM_MAJOR = 226
#: The file that sysfs has for a device with a node: its major and minor.
_NUMBER = "dev"
_FIRST_RENDER = 128
#: Drivers that register with DRM, and those of them that have no render node.
_DRM = frozenset({NVIDIA, "amdgpu", "i915", "xe", "nouveau", "radeon"})
_SHARED = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_PROC_DEVICES = (
    "Character devices:\n  1 mem\n195 nvidia\n226 drm\n235 nvidia-caps\n510 nvidia-uvm\n\nBlock devices:\n  8 sd"
)


def lay_nodes(tree: Tree, described: Description, device: str, function: Function, driver: str) -> None:
    """Those of one card, when a driver binds to it."""
    if driver in _DRM:
        card, render = _drm_names(described, function)
        tree.put(f"{device}/drm/{card}/{_NUMBER}", f"{_DRM_MAJOR}:{card.removeprefix('card')}")
        tree.put(f"{device}/drm/{render}/{_NUMBER}", f"{_DRM_MAJOR}:{render.removeprefix('renderD')}")
        for name in (card, render):
            tree.put(f"dev/dri/{name}", "", 0o660)
    if driver == _AMD and function.serial is not None:
        tree.put(f"{device}/unique_id", function.serial)
    if driver == NVIDIA:
        minor = _minor(described, function)
        one = function.serial
        uuid = f"GPU-{one[:8]}-{one[8:12]}-{one[12:]}-0000-000000000000" if one is not None else _NOT_STARTED
        facts = (
            f"Model: \t\t simulated\nGPU UUID: \t {uuid}\nBus Location: \t {function.address}\nDevice Minor: \t {minor}\n"
            "GPU Excluded:\t No"
        )
        tree.put(f"proc/driver/nvidia/gpus/{function.address}/information", facts)
        if not tree.exists("proc/devices"):
            tree.put("proc/devices", _PROC_DEVICES)
        for name in (f"nvidia{minor}", *_SHARED):
            if not tree.exists(f"dev/{name}"):
                tree.put(f"dev/{name}", "", 0o666)


def remove_nodes(tree: Tree, described: Description, device: str, function: Function, driver: str) -> None:
    """The same when the driver lets go."""
    if driver in _DRM:
        tree.remove(f"{device}/drm")
        tree.remove(f"{device}/unique_id")
        for name in _drm_names(described, function):
            tree.remove(f"dev/dri/{name}")
    if driver == NVIDIA:
        tree.remove(f"proc/driver/nvidia/gpus/{function.address}")
        tree.remove(f"dev/nvidia{_minor(described, function)}")


def space_with_serial(function: Function, serial: str) -> bytes:
    """A PCI Express function's configuration space: its ids, and a Device Serial Number after another extended capability."""
    space = bytearray(4096)
    struct.pack_into("<HH", space, 0, int(function.vendor, 16), int(function.device, 16))
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | 0x148 << 20)
    struct.pack_into("<IQ", space, 0x148, 0x0003 | 1 << 16, int(serial, 16))
    return bytes(space)


def _drm_names(described: Description, function: Function) -> tuple[str, str]:
    place = [one.address for one in described.functions].index(function.address)
    return f"card{place}", f"renderD{_FIRST_RENDER + place}"


def _minor(described: Description, function: Function) -> int:
    theirs = [one.address for one in described.functions if NVIDIA in (one.driver, *one.drivers)]
    return theirs[::-1].index(function.address)
