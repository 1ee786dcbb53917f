"""What NVIDIA's driver says in ``/proc`` of its cards, and which nodes belong to one of them.

A card has three numbers that look alike and are not: its *minor* (``/dev/nvidia<minor>``), its index in nvidia-smi and NVML, and its DRM
number. The minor alone names its node, and it is in no order of anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cantle.errors import Conflict, HostError
from cantle.kernel.char_device import Node, major
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress

#: Fixed by the driver (nvidia's nv.h; ``NV_MINOR_DEVICE_NUMBER_*``).
_CONTROL_MINOR = 255
_MODESET_MINOR = 254
#: Older than 550 the driver calls itself by the second name in /proc/devices.
_NAMES = ("nvidia", "nvidia-frontend")
#: A row of nvidia-smi mig -lgi: GPU, name, profile's id, instance's id, placement.
_INSTANCE = re.compile(r"^\|\s+[0-9]+\s+MIG\s+(\S+)\s+[0-9]+\s+([0-9]+)\s+\S+\s+\|", re.MULTILINE)
_SECONDS = 10.0


def minor(root: Root, address: PciAddress) -> int | None:
    """``Device Minor`` of a card; None when NVIDIA's driver does not have it."""
    text = root.read_or_none(f"proc/driver/nvidia/gpus/{address}/information") or ""
    for line in text.split("\n"):
        key, _, value = line.partition(":")
        if key.strip() == "Device Minor" and value.strip().isdigit():
            return int(value)
    return None


def nodes(root: Root, address: PciAddress) -> list[Node]:
    """The card's own node: none or one."""
    its, driver = minor(root, address), major(root, *_NAMES)
    return [] if its is None or driver is None else [Node(root.host_path(f"dev/nvidia{its}"), driver, its)]


def shared_nodes(root: Root) -> list[Node]:
    """The nodes that CUDA needs beside a card's own: control, unified memory, and modeset where there is one.

    :raises Conflict: ``nvidia-uvm-missing``: its module is loaded at first use only, and its major is dealt out then.
    """
    driver, uvm = major(root, *_NAMES), major(root, "nvidia-uvm")
    if driver is None:
        return []
    if uvm is None:
        raise Conflict(
            "nvidia-uvm-missing",
            "the module nvidia-uvm is not loaded, and nothing computes without it; on the host: nvidia-modprobe -u -c 0",
        )
    found = [Node(root.host_path("dev/nvidiactl"), driver, _CONTROL_MINOR, shared=True)]
    if root.exists("dev/nvidia-modeset"):
        found.append(Node(root.host_path("dev/nvidia-modeset"), driver, _MODESET_MINOR, shared=True))
    named = ("nvidia-uvm", "nvidia-uvm-tools")
    return found + [Node(root.host_path(f"dev/{name}"), uvm, index, shared=True) for index, name in enumerate(named)]


def mig_slices(root: Root, address: PciAddress) -> list[tuple[int, int]]:
    """The MIG slices of a card that can be used: its compute instances, as pairs of GPU instance and compute instance. None for a card that
    is not cut so. The list ``mig-minors`` has every slice that there could be; the directories are those that there are.

    :raises HostError: ``host-read-failed``.
    """
    its = minor(root, address)
    if its is None:
        return []
    place = f"proc/driver/nvidia/capabilities/gpu{its}/mig"
    found = []
    for gpu_instance in _numbered(root.names(place), "gi"):
        names = root.names(f"{place}/gi{gpu_instance}")
        found += [(gpu_instance, compute_instance) for compute_instance in _numbered(names, "ci")]
    return found


def mig_profiles(root: Root, address: PciAddress) -> dict[int, str]:
    """By GPU instance of a card, its profile (``1g.5gb``). Only NVIDIA's tool tells it.

    :raises HostError: ``tool-not-run``; ``nvidia-smi-refused``.
    """
    ran = root.run(["nvidia-smi", "-i", str(address), "mig", "-lgi"], _SECONDS)
    if ran.status:
        raise HostError("nvidia-smi-refused", f"nvidia-smi mig -lgi of {address} failed: {ran.words or ran.status}")
    return {int(row[2]): row[1] for row in _INSTANCE.finditer(ran.out)}


def _numbered(names: Iterable[str], prefix: str) -> list[int]:
    return sorted(int(name[2:]) for name in names if name.startswith(prefix) and name[2:].isdigit())


def mig_nodes(root: Root, card_minor: int, gpu_instance: int, compute_instance: int) -> list[Node]:
    """The capability nodes of one MIG slice, which open it on top of its card's nodes: of the GPU instance and of the compute instance.

    :param card_minor: of the card, as :func:`minor` gives it.
    :raises Conflict: ``mig-slice-missing``.
    """
    instance = f"gpu{card_minor}/gi{gpu_instance}"
    driver = major(root, "nvidia-caps")
    found = []
    for path in (f"{instance}/access", f"{instance}/ci{compute_instance}/access"):
        its = _capability(root, path)
        if its is None or driver is None:
            raise Conflict(
                "mig-slice-missing", f"NVIDIA's driver knows no capability {path}: there is no such slice now"
            )
        found.append(Node(root.host_path(f"dev/nvidia-caps/nvidia-cap{its}"), driver, its))
    return found


def _capability(root: Root, path: str) -> int | None:
    """Minor of a capability: of its own file, else of the list of all."""
    group, _, rest = path.partition("/")
    text = root.read_or_none(f"proc/driver/nvidia/capabilities/{group}/mig/{rest}")
    if text is not None:
        found = [line.partition(":")[2].strip() for line in text.split("\n") if line.startswith("DeviceFileMinor")]
    else:
        lines = (line.split() for line in (root.read_or_none("proc/driver/nvidia-caps/mig-minors") or "").split("\n"))
        found = [line[1] for line in lines if len(line) == 2 and line[0] == path]
    return int(found[0]) if found and found[0].isdigit() else None
