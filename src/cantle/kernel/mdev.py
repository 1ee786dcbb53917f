"""Mediated devices: parents, the types they offer, the devices made on them, making and removing one.

Facts: the kernel's Documentation/driver-api/vfio-mediated-device.rst and drivers/vfio/mdev/.
"""

from __future__ import annotations

import errno
import functools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, NoReturn

from cantle.errors import BadRequest, Conflict, HostError
from cantle.kernel import holders
from cantle.kernel.root import Directory, Root

PARENTS = "sys/class/mdev_bus"
DEVICES = "sys/bus/mdev/devices"

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NAME = re.compile(r"[^/\s\0]+")
#: What the kernel or a parent's driver answers when nothing is left. Drivers also say EINVAL for it.
_NO_ROOM = (errno.ENOSPC, errno.EUSERS)
_GONE = (errno.ENOENT, errno.ENODEV)


class MdevType(NamedTuple):
    """A kind of mediated device that a parent offers.

    :param type_id: the directory's name, ``nvidia-223``.
    :param name: ``GRID T4-2B``; None where the parent's driver has no such file (i915).
    :param description: the driver's own words; None where it has no such file.
    :param device_api: ``vfio-pci``, ``vfio-ccw``, ``vfio-ap``; "" where it does not say.
    :param available_instances: how many more can be made now. Making one may lower it for other types, to 0.
    """

    type_id: str
    name: str | None
    description: str | None
    device_api: str
    available_instances: int


class MdevDevice(NamedTuple):
    """A mediated device that exists, made by whomever."""

    uuid: str
    type_id: str
    parent: str


def parents(root: Root) -> list[str]:
    """Names of all parents: a PCI address as sysfs writes it, or what a virtual one is called (``mtty``)."""
    return root.names(PARENTS)


def other_names(root: Root, parent: str) -> tuple[str, ...]:
    """What else a parent that is no PCI function goes by: Nova writes its path below ``devices/virtual`` with ``_`` for ``/``, so that
    ``mtty`` is ``mtty_mtty`` too."""
    _, virtual, path = (root.link(f"{PARENTS}/{parent}") or "").partition("/devices/virtual/")
    return (path.replace("/", "_"),) if virtual else ()


def types(root: Root, parent: str) -> list[MdevType]:
    """What a parent offers now, by type id; none while its driver is still setting them up, or when there is no such parent.

    :raises HostError: ``host-read-failed`` when one of the files cannot be read.
    """
    found = []
    for type_id, files in _each_type(root, parent):
        available = _number(files, "available_instances")
        if available is not None:
            name, description, api = (files.read_or_none(file) for file in ("name", "description", "device_api"))
            found.append(MdevType(type_id, name, description, api or "", available))
    return found


def has_room(root: Root, parent: str) -> bool:
    """Whether one more mediated device of any type can be made on a parent. Reads no more than it must."""
    return any((_number(files, "available_instances") or 0) > 0 for _, files in _each_type(root, parent))


def devices(root: Root) -> list[MdevDevice]:
    """All mediated devices of the host, by uuid."""
    found = (device(root, uuid) for uuid in root.names(DEVICES))
    return [one for one in found if one is not None]


def device(root: Root, uuid: str) -> MdevDevice | None:
    """The mediated device of this uuid; None when there is none, or it is going away."""
    target = root.link(f"{DEVICES}/{uuid}")
    type_id = root.link_name(f"{DEVICES}/{uuid}/mdev_type") if target is not None else None
    if target is None or type_id is None:
        return None
    # .../0000:08:00.4/<uuid>: the parent is the directory above.
    return MdevDevice(uuid, type_id, target.rpartition("/")[0].rpartition("/")[2])


def is_free(root: Root, uuid: str) -> bool:
    """Whether nobody has a mediated device open. False too when that cannot be found out."""
    held = holders.holders(root, _nodes(root, f"{DEVICES}/{uuid}"))
    return not held.holders and held.blind is None


def create(root: Root, parent: str, type_id: str, uuid: str) -> None:
    """Make a mediated device (spec S0.7) and see it there. Success when exactly this one exists already.

    :raises HostError: ``mdev-uuid-taken``, ``mdev-parent-missing``, ``mdev-type-missing``, ``mdev-no-room``, ``mdev-refused``,
        ``mdev-not-made``; the message names what stands in the way, ``errno`` is the kernel's.
    :raises BadRequest: ``bad-mdev-name`` when uuid, parent or type is none; nothing was touched.
    """
    _check_names(parent, type_id, uuid)
    try:
        root.write(f"{_types_of(parent)}/{type_id}/create", uuid)
    except HostError as error:
        # The kernel refuses a uuid that it has. If that is this very one, it is what was wanted, whatever the number says.
        wanted = MdevDevice(uuid, type_id, parent)
        if not _is_there(root, wanted):
            _explain_create(root, wanted, error)
    if root.link(f"{DEVICES}/{uuid}") is None:
        raise HostError(
            "mdev-not-made",
            f"the kernel took {uuid} for {type_id} on {parent}, but no such device appeared; see dmesg for its driver's words",
            path=root.host_path(f"{DEVICES}/{uuid}"),
        )


def remove(root: Root, uuid: str) -> None:
    """Remove a mediated device (spec S0.8) and see it gone. Success when it is not there.

    One that a guest holds is refused before anything is written: the kernel would let the write wait until the guest lets go.

    :raises HostError: ``mdev-in-use``, ``mdev-refused``, ``mdev-not-removed``.
    :raises Conflict: ``holders-unknown``.
    :raises BadRequest: ``bad-mdev-name`` when it is no uuid.
    """
    _check_uuid(uuid)
    rel = f"{DEVICES}/{uuid}"
    if _is_taken(root, uuid) is not False:
        if root.link(rel) is None:
            return
        check_free(root, uuid)
    try:
        root.write(f"{rel}/remove", "1")
    except HostError as error:
        if error.errno not in _GONE:
            why = "it is in use" if error.errno == errno.EBUSY else _words(error)
            message = f"cannot remove {_described(root, uuid)}: {why}"
            raise HostError("mdev-refused", message, path=error.path, errno=error.errno) from error
    if root.link(rel) is not None:
        raise HostError(
            "mdev-not-removed",
            f"the removal of {_described(root, uuid)} was taken, but it is still there; the kernel waits for whoever uses it",
            path=root.host_path(rel),
        )


def check_free(root: Root, uuid: str) -> None:
    """Refuse while somebody has a mediated device open.

    :raises HostError: ``mdev-in-use`` naming the processes.
    :raises Conflict: ``holders-unknown``.
    """
    taken = _is_taken(root, uuid)
    if taken is False:
        return
    what, rel = _described(root, uuid), f"{DEVICES}/{uuid}"
    held = holders.holders(root, _nodes(root, rel))
    if held.holders or taken:
        who = "; ".join(map(str, held.holders)) or "its VFIO group is open in a process that cannot be seen from here"
        raise HostError(
            "mdev-in-use",
            f"{what} is in use: {who}; stop that guest or detach the device first",
            path=root.host_path(rel),
            errno=errno.EBUSY,
        )
    if held.blind is not None:
        raise Conflict("holders-unknown", f"who uses {what} cannot be found out: {held.blind}")


def _is_taken(root: Root, uuid: str) -> bool | None:
    """What the kernel says: a VFIO group is opened once at a time, and stays open as long as one of its devices is, through iommufd too
    (``vfio_group_fops_open``). So processes need to be looked through only to name who is in the way, or where it cannot be asked: None.
    """
    group = root.link_name(f"{DEVICES}/{uuid}/iommu_group")
    return None if group is None else root.is_taken(f"dev/vfio/{group}")


def _described(root: Root, uuid: str) -> str:
    there = device(root, uuid)
    return uuid if there is None else f"{uuid} ({there.type_id} on {there.parent})"


def _nodes(root: Root, rel: str) -> list[str]:
    """The nodes through which a guest holds a mediated device: its group's, and with iommufd its own."""
    group = root.link_name(f"{rel}/iommu_group")
    own = [f"/dev/vfio/devices/{name}" for name in root.names(f"{rel}/vfio-dev")]
    return own if group is None else [f"/dev/vfio/{group}", f"/dev/vfio/noiommu-{group}", *own]


def _types_of(parent: str) -> str:
    return f"{PARENTS}/{parent}/mdev_supported_types"


def _each_type(root: Root, parent: str) -> Iterator[tuple[str, Directory]]:
    """The directories of the parent's types, one after the other, each open while it is looked at.

    One that goes away meanwhile, or all of them since the parent's driver is leaving, are no types any more.
    """
    base = _types_of(parent)
    types_of = root.directory_or_none(base)
    if types_of is None:
        return
    with types_of:
        for type_id in root.names(base):
            files = types_of.directory_or_none(type_id)
            if files is not None:
                with files:
                    yield type_id, files


def _number(files: Directory, name: str) -> int | None:
    text = files.read_or_none(name)
    try:
        return None if text is None else int(text)
    except ValueError as error:
        path = f"/{files.rel}/{name}"
        raise HostError("host-read-failed", f"{path} holds {text!r} in place of a number", path=path) from error


def _check_names(parent: str, type_id: str, uuid: str) -> None:
    """Names become paths: whoever sent them must not lead us elsewhere."""
    _check_uuid(uuid)
    for name in (parent, type_id):
        if not _is_name(name):
            raise BadRequest("bad-mdev-name", f"{name!r} is no name of a mediated device's parent or type")


@functools.lru_cache(maxsize=256)
def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


def _check_uuid(uuid: str) -> None:
    if not _UUID.fullmatch(uuid):
        raise BadRequest(
            "bad-mdev-name", f"{uuid!r} is no uuid of a mediated device; write it in lower case with dashes"
        )


def _is_there(root: Root, wanted: MdevDevice) -> bool:
    there = device(root, wanted.uuid)
    if there is not None and there != wanted:
        raise HostError(
            "mdev-uuid-taken",
            f"{wanted.uuid} is already a {there.type_id} on {there.parent}; a {wanted.type_id} on {wanted.parent} "
            "cannot have the same uuid: remove the old one or ask with another uuid",
            path=root.host_path(f"{DEVICES}/{wanted.uuid}"),
            errno=errno.EEXIST,
        )
    return there is not None


def _explain_create(root: Root, wanted: MdevDevice, error: HostError) -> NoReturn:
    """Turn the kernel's number into what stands in the way."""
    code, message = _reason(root, wanted, error)
    raise HostError(code, message, path=error.path, errno=error.errno) from error


def _reason(root: Root, wanted: MdevDevice, error: HostError) -> tuple[str, str]:
    parent, type_id = wanted.parent, wanted.type_id
    offered = {one.type_id: one for one in types(root, parent)}
    if type_id not in offered and error.errno in _GONE:
        if parent not in parents(root):
            return (
                "mdev-parent-missing",
                f"{parent} is no parent of mediated devices: is its driver loaded? {_parents_words(root)}",
            )
        return "mdev-type-missing", f"{parent} does not offer {type_id}; it offers {_listed(offered) or 'nothing yet'}"
    if type_id in offered and offered[type_id].available_instances < 1 and error.errno in (*_NO_ROOM, errno.EINVAL):
        return "mdev-no-room", f"{type_id} offers 0 on {parent}: {_blockers(root, parent)}"
    if error.errno in _NO_ROOM:
        return "mdev-no-room", f"{parent} has no room for another {type_id}: {_blockers(root, parent)}"
    return "mdev-refused", f"cannot make a {type_id} on {parent}: {_words(error)}"


def _parents_words(root: Root) -> str:
    return f"The parents of this host are {_listed(parents(root)) or 'none'}"


def _blockers(root: Root, parent: str) -> str:
    """The mediated devices that use up the card: those of the parent, or of all functions of its physical function."""
    card = _card(root, parent)
    here = [one for one in devices(root) if _card(root, one.parent) == card]
    if not here:
        return "nothing is made on this card, so its driver keeps it for something else; see dmesg"
    parts = []
    for type_id in sorted({one.type_id for one in here}):
        of_type = [one for one in here if one.type_id == type_id]
        uuids = ", ".join(one.uuid if one.parent == parent else f"{one.uuid} (on {one.parent})" for one in of_type)
        parts.append(f"{len(of_type)} {type_id} ({uuids})")
    return f"the card carries {' and '.join(parts)}"


def _card(root: Root, parent: str) -> str:
    return root.link_name(f"{PARENTS}/{parent}/physfn") or parent


def _words(error: HostError) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return "this needs root"
        case errno.EROFS:
            return "/sys is mounted read-only here, as in a container"
        case errno.EBUSY | errno.EAGAIN:
            return "its driver is busy; try again"
        case _:
            return f"{error.message}; see dmesg for its driver's words"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
