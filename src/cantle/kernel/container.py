"""Running LXC containers: whether one runs, its device permissions, its nodes, and which processes of containers hold a node.

Permissions go through liblxc (``lxc-cgroup``), whose monitor knows which cgroup is the container's and, with cgroup v2, holds the list that
its device program is made of. That list cannot be read back, and a rule is withdrawn only by exactly the words it was given with.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum

from cantle.errors import BadRequest, Conflict, HostError
from cantle.kernel.char_device import Node, number_of_file
from cantle.kernel.holders import Holder
from cantle.kernel.root import Root
from cantle.kernel.tools import Ran

_SECONDS = 20.0
#: Of a question to a container's monitor: it answers none while the container starts, and a start may be waiting for us.
_QUESTION = 3.0
_NUMBER = re.compile(r"([0-9]{1,5}):([0-9]{1,8})")


class Layout(StrEnum):
    """Which key of a container's configuration rules over devices on this host. liblxc passes over the other in silence."""

    V1 = "lxc.cgroup.devices"
    """The controller ``devices`` of cgroup v1: also on hybrid hosts, where cgroup v2 is there beside it."""
    V2 = "lxc.cgroup2.devices"
    """cgroup v2 alone."""


def layout(root: Root) -> Layout:
    """:raises Conflict: ``no-device-cgroup``: permissions could not be kept from any container here."""
    if root.exists("sys/fs/cgroup/cgroup.controllers"):
        return Layout.V2
    if root.exists("sys/fs/cgroup/devices"):
        return Layout.V1
    raise Conflict(
        "no-device-cgroup",
        "neither cgroup v2 nor the controller devices of v1 is mounted in /sys/fs/cgroup: every container could open every card",
    )


def init_pid(root: Root, name: str) -> int | None:
    """The pid of a running container's init; None when it does not run. A tree of files runs none.

    :raises HostError: ``tool-not-run``: liblxc's tools are not installed.
    """
    if not root.is_machine:
        return None
    ran = root.run(["lxc-info", "-n", name, "-p", "-H"], _QUESTION)
    return int(ran.words) if ran.status == 0 and ran.words.isdigit() else None


def permit(root: Root, name: str, node: Node) -> None:
    """Let a running container read and write a device. :raises HostError: ``container-refused``, ``tool-not-run``."""
    _rule(root, name, "allow", node)


def forbid(root: Root, name: str, node: Node) -> None:
    """Take that back. What is open stays open. :raises HostError: ``container-refused``, ``tool-not-run``."""
    _rule(root, name, "deny", node)


def rule(node: Node) -> str:
    """A permission as configurations and ``lxc-cgroup`` spell it. No ``m``: nobody needs to make nodes inside."""
    return f"c {node.major}:{node.minor} rw"


def number(node: Node) -> str:
    """``226:128``."""
    return f"{node.major}:{node.minor}"


def stranger(number: str) -> Node:
    """A device of which only its number is known.

    :raises BadRequest: ``bad-device-number``.
    """
    match = _NUMBER.fullmatch(number)
    if match is None:
        raise BadRequest("bad-device-number", f"{number!r} is no device number: write major and minor, as 226:128")
    return Node(f"device {number}", int(match[1]), int(match[2]))


def put(root: Root, pid: int, node: Node) -> None:
    """Have the host's node in a running container. :raises HostError: ``container-refused``, ``tool-not-run``."""
    _inject(root, "put", pid, node)


def take(root: Root, pid: int, node: Node) -> None:
    """Have it there no more. :raises HostError: ``container-refused``, ``tool-not-run``."""
    _inject(root, "take", pid, node)


def has(root: Root, pid: int, node: Node) -> bool:
    """Whether a running container sees exactly this device under the node's name."""
    return number_of_file(root, f"proc/{pid}/root{node.path}") == (node.major, node.minor)


def users(root: Root, nodes: Iterable[Node]) -> list[Holder]:
    """Processes of containers that have one of these nodes open, by number: inside it may have any name.

    Of a container is whatever has a PID namespace below ours: the host's own daemons keep cards open for ever (nvidia-persistenced, DCGM)
    and are nobody's guest. A container that shares the host's PIDs is not seen.

    :raises HostError: ``host-read-failed``: the open files of a container's process may not be read.
    """
    wanted = {(node.major, node.minor): node.path for node in nodes if not node.shared}
    if not wanted or not root.is_machine:
        return []
    found: list[Holder] = []
    for pid in (name for name in root.names("proc") if name.isdigit()):
        try:
            if _is_of_container(root.read(f"proc/{pid}/status")):
                found += _opened(root, pid, wanted)
        except HostError as error:
            if error.errno not in (errno.ENOENT, errno.ESRCH):  # it has ended
                raise
    return found


def _is_of_container(status: str) -> bool:
    """``NSpid`` has the process's pid in each PID namespace from ours down (proc_pid_status(5))."""
    return any(line.startswith("NSpid:") and len(line.split()) > 2 for line in status.split("\n"))


def _opened(root: Root, pid: str, wanted: Mapping[tuple[int, int], str]) -> list[Holder]:
    numbers = (number_of_file(root, f"proc/{pid}/fd/{fd}") for fd in root.names(f"proc/{pid}/fd"))
    paths = {wanted[number] for number in numbers if number is not None and number in wanted}
    return [Holder(int(pid), root.read(f"proc/{pid}/comm"), path) for path in sorted(paths)]


def check_unused(root: Root, nodes: Iterable[Node]) -> None:
    """:raises Conflict: ``device-held`` naming the processes."""
    found = users(root, nodes)
    if found:
        named = "; ".join(str(one) for one in found[:8])
        raise Conflict(
            "device-held",
            f"a container still uses it: {named}; end these programs, or the container",
            holders=[(one.pid, one.command, one.path) for one in found],
        )


def _rule(root: Root, name: str, verb: str, node: Node) -> None:
    ran = root.run(["lxc-cgroup", "-n", name, f"devices.{verb}", rule(node)], _SECONDS)
    _check(ran, f"the permission of {node.path} could not be {'given to' if verb == 'allow' else 'taken from'} {name}")


def _inject(root: Root, verb: str, pid: int, node: Node) -> None:
    """``-P``: whatever lies in the directory that the agent was started in is not imported."""
    ran = root.run([sys.executable, "-P", "-m", "cantle.kernel.inject", verb, str(pid), node.path], _SECONDS)
    if verb == "put":
        _check(ran, f"{node.path} could not be brought into the container of process {pid}")
    else:
        mend = "; it is tried again, and once the container is stopped there is nothing to take"
        _check(ran, f"{node.path} could not be taken from the container of process {pid}", mend)


def _check(ran: Ran, what: str, mend: str = "") -> None:
    if ran.status:
        raise HostError("container-refused", f"{what}: {ran.words or f'status {ran.status}'}{mend}")
