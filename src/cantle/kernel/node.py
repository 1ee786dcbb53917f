"""Device nodes: through which files a program uses a card, with the numbers they have now.

Majors and minors are dealt out anew at each boot, some at each load of a module. So they are looked up where they are needed and kept
nowhere. They are read from sysfs and procfs, not from the files in ``/dev``: those may be left over from an earlier boot.
"""

from __future__ import annotations

import re

from cantle.errors import Conflict
from cantle.kernel import drm, nvidia
from cantle.kernel.char_device import Node, number
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress

PCI_DEVICES = "sys/bus/pci/devices"
MDEV_DEVICES = "sys/bus/mdev/devices"
VFIO_PCI = "vfio-pci"
_GROUP = re.compile(r"[0-9]{1,9}")


def of_card(root: Root, address: PciAddress) -> tuple[Node, ...]:
    """The nodes of exactly this card while it is on its own driver, those it shares with other cards last.

    :raises Conflict: ``no-device-nodes``: no such card, or its driver makes none; ``nvidia-uvm-missing``.
    :raises HostError: ``host-read-failed``.
    """
    driver = root.link_name(f"{PCI_DEVICES}/{address}/driver")
    own = own_of_card(root, address)
    if not own or driver in (None, VFIO_PCI):
        now = f"it is on {driver}" if driver is not None else "no driver is bound to it"
        raise Conflict(
            "no-device-nodes",
            f"{address} has no device node that a container could use: {now}. A container needs the card on its vendor's driver",
            address=str(address),
            driver=driver,
        )
    shared = list(nvidia.shared_nodes(root)) if nvidia.minor(root, address) is not None else []
    kfd = number(root, "sys/class/kfd/kfd/dev") if driver == "amdgpu" else None
    if kfd is not None:
        shared.append(Node(root.host_path("dev/kfd"), *kfd, shared=True))
    return (*own, *shared)


def own_of_card(root: Root, address: PciAddress) -> tuple[Node, ...]:
    """Those of them that are the card's alone; none where no driver makes any. :raises HostError: ``host-read-failed``."""
    return (*nvidia.nodes(root, address), *drm.render_nodes(root, address))


def of_slice(root: Root, address: PciAddress, gpu_instance: int, compute_instance: int) -> tuple[Node, ...]:
    """The nodes of exactly this MIG slice: its two capabilities, which are its own, and what it shares with the card's other slices.

    :raises Conflict: ``no-device-nodes``, ``mig-slice-missing``, ``nvidia-uvm-missing``.
    :raises HostError: ``host-read-failed``.
    """
    card = nvidia.nodes(root, address)
    minor = nvidia.minor(root, address)
    if not card or minor is None:
        raise Conflict(
            "no-device-nodes",
            f"NVIDIA's driver does not have {address}, so there are no slices of it",
            address=str(address),
        )
    own = nvidia.mig_nodes(root, minor, gpu_instance, compute_instance)
    shared = [Node(one.path, one.major, one.minor, shared=True) for one in card]
    return (*own, *shared, *nvidia.shared_nodes(root))


def of_mdev(root: Root, uuid: str) -> tuple[Node, ...]:
    """The VFIO nodes of a mediated device: for a container that runs a virtual machine.

    :raises Conflict: ``no-device-nodes``: there is no such device, or it has no IOMMU group.
    :raises HostError: ``host-read-failed``.
    """
    group = root.link_name(f"{MDEV_DEVICES}/{uuid}/iommu_group") or ""
    own = number(root, f"sys/class/vfio/{group}/dev") if _GROUP.fullmatch(group) else None
    control = number(root, "sys/class/misc/vfio/dev")
    if own is None or control is None:
        raise Conflict(
            "no-device-nodes", f"the mediated device {uuid} has no VFIO node; is the module vfio loaded?", uuid=uuid
        )
    return Node(root.host_path(f"dev/vfio/{group}"), *own), Node(root.host_path("dev/vfio/vfio"), *control, shared=True)
