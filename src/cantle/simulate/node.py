"""What a graphics driver makes appear beside its card: DRM and NVIDIA's entries in ``/proc``, and the nodes.

The numbers are in different orders on purpose, as on real hosts: NVIDIA's minors count down the bus, DRM's count up it.
"""

from __future__ import annotations

import struct

from cantle.simulate.description import Description, Function
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
        _lay_mig(tree, function, minor)


def _lay_mig(tree: Tree, function: Function, minor: int) -> None:
    """The capabilities of a card's slices, each with a node of its own (NVIDIA's "Device Nodes and Capabilities")."""
    for one in function.mig:
        instance = f"gi{one.gpu_instance}"
        for rel, ci in (
            (f"{instance}/access", None),
            (f"{instance}/ci{one.compute_instance}/access", one.compute_instance),
        ):
            place = f"proc/driver/nvidia/capabilities/gpu{minor}/mig/{rel}"
            if not tree.exists(place):
                number = mig_minor(minor, one.gpu_instance, ci)
                tree.put(place, f"DeviceFileMinor: {number}\nDeviceFileMode: 292\nDeviceFileModify: 1")
                tree.put(f"dev/nvidia-caps/nvidia-cap{number}", "", 0o444)


def mig_minor(card: int, gpu_instance: int, compute_instance: int | None) -> int:
    """The minor of a slice's capability, numbered through as the driver does: 15 GPU instances a card, each with up to 8 compute
    instances."""
    return 3 + (card * 15 + gpu_instance) * 9 + (0 if compute_instance is None else 1 + compute_instance)


def mig_table(function: Function) -> str:
    """What ``nvidia-smi mig -lgi`` prints of a card."""
    rows = {one.gpu_instance: one.profile for one in function.mig}
    lines = [
        f"|   0  {f'MIG {profile}':<18}  19       {number:>2}          {number}:1     |"
        for number, profile in sorted(rows.items())
    ]
    edge = "+" + "=" * 55 + "+"
    return "\n".join([edge, "| GPU   Name             Profile  Instance   Placement  |", edge, *lines, edge]) + "\n"


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
        tree.remove(f"proc/driver/nvidia/capabilities/gpu{_minor(described, function)}")


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
