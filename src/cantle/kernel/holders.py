"""Who has the device nodes of a card open, and what of the host itself runs on it.

Taking a driver away while a process holds its node does not fail: the write into ``unbind`` sleeps in the kernel until the process
lets go (``vfio_unregister_group_dev``, ``snd_card_free``, NVIDIA's module). So it is found out beforehand, from ``/proc/<pid>/fd``.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass

from cantle.errors import Conflict, HostError
from cantle.kernel import nvidia
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress

PCI_DEVICES = "sys/bus/pci/devices"

#: ``PID_NS_INIT_INO`` (include/uapi/linux/nsfs.h): from any other PID namespace the host's processes cannot be seen.
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
_GONE = (errno.ENOENT, errno.ESRCH)
_DENIED = (errno.EACCES, errno.EPERM)
#: Processes named in a message; more are counted.
_NAMED = 8


@dataclass(frozen=True, order=True, slots=True)
class Holder:
    """A process that has a node open."""

    pid: int
    command: str
    path: str

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.command}) has {self.path} open"


@dataclass(frozen=True, slots=True)
class Held:
    """What a look at the processes gave. With ``blind`` set, an empty ``holders`` means "could not look", not "nobody"."""

    holders: tuple[Holder, ...] = ()
    blind: str | None = None


def nodes(root: Root, address: PciAddress) -> list[str]:
    """Device nodes through which programs use this function, as the host names them: of NVIDIA, DRM, sound, NVMe and VFIO drivers.

    Nodes shared by all cards (``/dev/nvidiactl``, ``/dev/kfd``, ``/dev/vfio/vfio``) say nothing of one card and are left out.
    """
    device = f"{PCI_DEVICES}/{address}"
    minor = nvidia.minor(root, address)
    found = [] if minor is None else [f"/dev/nvidia{minor}"]
    found += [f"/dev/dri/{name}" for name in root.names(f"{device}/drm") if name.startswith(("card", "renderD"))]
    for card in root.names(f"{device}/sound"):
        kinds = ("controlC", "pcmC", "hwC", "midiC")
        found += [f"/dev/snd/{name}" for name in root.names(f"{device}/sound/{card}") if name.startswith(kinds)]
    for controller in root.names(f"{device}/nvme"):
        found.append(f"/dev/{controller}")
    found += [f"/dev/{disk}" for disk in _disks(root, address)]
    return found + vfio_nodes(root, address)


def vfio_nodes(root: Root, address: PciAddress) -> list[str]:
    """The nodes through which a guest holds a function that is on vfio-pci."""
    group = root.link_name(f"{PCI_DEVICES}/{address}/iommu_group")
    own = [f"/dev/vfio/devices/{name}" for name in root.names(f"{PCI_DEVICES}/{address}/vfio-dev")]
    return own if group is None else [f"/dev/vfio/{group}", f"/dev/vfio/noiommu-{group}", *own]


def holders(root: Root, paths: Iterable[str]) -> Held:
    """Every process that has one of these nodes open. Processes that end meanwhile are not there.

    Found by the name under which a process opened the node; a node that a container sees under another name is missed.
    """
    wanted = frozenset(paths)
    found: list[Holder] = []
    denied: list[str] = []
    namespace = root.link("proc/self/ns/pid")
    for pid in (name for name in root.names("proc") if name.isdigit()):
        try:
            found += [Holder(int(pid), _command(root, pid), path) for path in _open_nodes(root, pid) if path in wanted]
        except HostError as error:
            if error.errno in _DENIED:
                denied.append(pid)
            elif error.errno not in _GONE:
                raise
    blind = None
    if denied:
        blind = f"the open files of {len(denied)} processes may not be read (the first is pid {denied[0]}); run as root with CAP_SYS_PTRACE"
    elif namespace not in (None, _INITIAL_PID_NAMESPACE):
        blind = "this process runs in a PID namespace of its own and cannot see the host's; run it in the host's (hostPID, --pid=host)"
    return Held(tuple(sorted(set(found))), blind)


def check_free(root: Root, addresses: Iterable[PciAddress]) -> None:
    """Refuse unless nobody has a node of these functions open.

    :raises Conflict: ``device-held`` naming processes; ``holders-unknown`` when it could not be found out.
    """
    addresses = tuple(addresses)
    paths = [path for address in addresses for path in nodes(root, address)]
    if not paths:
        return
    held = holders(root, paths)
    what = ", ".join(str(address) for address in addresses)
    if held.holders:
        named = "; ".join(str(holder) for holder in held.holders[:_NAMED])
        more = len(held.holders) - _NAMED
        also = f"; and {more} more" if more > 0 else ""
        raise Conflict(
            "device-held",
            f"{what} is in use: {named}{also}; end these programs, then try again",
            holders=[(holder.pid, holder.command, holder.path) for holder in held.holders],
        )
    if held.blind is not None:
        raise Conflict("holders-unknown", f"who uses {what} cannot be found out: {held.blind}", nodes=paths)


def host_uses(root: Root, address: PciAddress) -> list[str]:
    """What the host itself has on this function, in words: mounted or stacked disks, swap, network interfaces that are up."""
    uses = []
    mounts = _mounts(root)
    for disk in _disks(root, address):
        number = root.read_or_none(f"sys/class/block/{disk}/dev")
        places = {place for key, place in mounts if key in (number, f"/dev/{disk}")}
        uses += [f"{disk} is mounted at {place}" for place in sorted(places)]
        uses += [f"{disk} carries {name}" for name in root.names(f"sys/class/block/{disk}/holders")]
    for name in root.names(f"{PCI_DEVICES}/{address}/net"):
        flags = root.read_or_none(f"{PCI_DEVICES}/{address}/net/{name}/flags")
        if flags is not None and int(flags, 16) & 1:  # IFF_UP, include/uapi/linux/if.h
            uses.append(f"network interface {name} is up")
    return uses


def _disks(root: Root, address: PciAddress) -> list[str]:
    """Block devices, partitions too, whose place in the device tree is below this function."""
    names = root.names("sys/class/block")
    return [name for name in names if f"/{address}/" in (root.link(f"sys/class/block/{name}") or "")]


def _mounts(root: Root) -> set[tuple[str, str]]:
    """(``major:minor`` or source, mount point): some file systems show only the one truly (``/dev/root``, btrfs's anonymous numbers)."""
    found = set()
    for line in (root.read_or_none("proc/self/mountinfo") or "").split("\n"):
        parts = line.split()
        if "-" in parts[6:]:  # proc_pid_mountinfo(5): any number of optional fields end with a hyphen
            source = parts[parts.index("-", 6) + 2]
            found |= {(parts[2], parts[4]), (source, parts[4])}
    for line in (root.read_or_none("proc/swaps") or "").split("\n"):
        if line.startswith("/dev/"):
            found.add((line.split()[0], "[swap]"))
    return found


def _open_nodes(root: Root, pid: str) -> list[str]:
    """Targets below /dev of a process's open files. The kernel marks those of removed nodes with `` (deleted)``."""
    found = []
    for fd in root.names(f"proc/{pid}/fd"):
        target = root.link(f"proc/{pid}/fd/{fd}") or ""
        if target.startswith("/dev/"):
            found.append(target.removesuffix(" (deleted)"))
    return found


def _command(root: Root, pid: str) -> str:
    try:
        return root.read_or_none(f"proc/{pid}/comm") or "?"
    except HostError:  # it ended after its files were looked at; still worth naming by its number
        return "?"
