"""Mediated devices: parents, the types they offer, and the devices made (Documentation/driver-api/vfio-mediated-device.rst)."""

from __future__ import annotations

from typing import NamedTuple

from cantle.errors import HostError
from cantle.kernel.root import Root

PARENTS = "sys/class/mdev_bus"
DEVICES = "sys/bus/mdev/devices"


class MdevType(NamedTuple):
    """A kind of mediated device that a parent offers. ``name`` and ``description`` are optional files of the parent's driver."""

    type_id: str
    name: str | None
    description: str | None
    device_api: str
    available_instances: int


class MdevDevice(NamedTuple):
    """A mediated device that exists."""

    uuid: str
    type_id: str
    parent: str


def parents(root: Root) -> list[str]:
    """Names of all parents: PCI addresses, or what a virtual one is called (``mtty``)."""
    return root.names(PARENTS)


def types(root: Root, parent: str) -> list[MdevType]:
    """What a parent offers now; none while its driver is still setting them up."""
    base = f"{PARENTS}/{parent}/mdev_supported_types"
    found = []
    for type_id in root.names(base):
        available = root.read_or_none(f"{base}/{type_id}/available_instances")
        if available is None:
            continue
        found.append(
            MdevType(
                type_id,
                root.read_or_none(f"{base}/{type_id}/name"),
                root.read_or_none(f"{base}/{type_id}/description"),
                root.read_or_none(f"{base}/{type_id}/device_api") or "",
                int(available),
            )
        )
    return found


def devices(root: Root) -> list[MdevDevice]:
    """All mediated devices of the host, by uuid."""
    found = (device(root, uuid) for uuid in root.names(DEVICES))
    return [one for one in found if one is not None]


def device(root: Root, uuid: str) -> MdevDevice | None:
    """The mediated device of this uuid, or None."""
    target = root.link(f"{DEVICES}/{uuid}")
    type_id = root.link_name(f"{DEVICES}/{uuid}/mdev_type")
    if target is None or type_id is None:
        return None
    return MdevDevice(uuid, type_id, target.split("/")[-2])


def create(root: Root, parent: str, type_id: str, uuid: str) -> None:
    """Make a mediated device (spec S0.7). Success when exactly it exists already."""
    if device(root, uuid) == MdevDevice(uuid, type_id, parent):
        return
    root.write(f"{PARENTS}/{parent}/mdev_supported_types/{type_id}/create", uuid)
    if device(root, uuid) is None:
        raise HostError(
            "mdev-not-made", f"the kernel took {uuid} for {type_id} on {parent}, but no such device appeared"
        )


def remove(root: Root, uuid: str) -> None:
    """Remove a mediated device (spec S0.8). Success when it is not there."""
    if device(root, uuid) is not None:
        root.write(f"{DEVICES}/{uuid}/remove", "1")
