"""The memory nodes of a host, and on which socket of its board each of them is.

Shapes: Documentation/ABI/stable/sysfs-devices-node (``cpulist``, of online CPUs only) and Documentation/ABI/stable/sysfs-devices-system-cpu
(``topology/physical_package_id``, which is -1 where the firmware does not say, and is not there for a CPU that is offline).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cantle.errors import HostError
from cantle.kernel.root import Root
from cantle.model.problem import Problem

_NODES = "sys/devices/system/node"
_CPUS = "sys/devices/system/cpu"
_NODE = re.compile(r"node([0-9]{1,6})")
_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_PACKAGE = re.compile(r"[0-9]{1,9}")
#: More CPUs than Linux can have (NR_CPUS is 8192 at most): a list that names more is none.
_MOST_CPUS = 65536


def sockets(root: Root) -> tuple[dict[int, int | None], list[Problem]]:
    """The socket of each node with CPUs, by their numbers; None for a node whose CPUs do not all say one and the same socket, as Nova has
    it, and for one that could not be read, which is told beside it.

    A node without CPUs (memory alone, or all of its CPUs offline) is on no socket and is left out. Empty on a kernel without NUMA.

    :raises HostError: ``host-read-failed``: which nodes there are.
    """
    found: dict[int, int | None] = {}
    problems: list[Problem] = []
    for number in sorted(int(match[1]) for name in root.names(_NODES) if (match := _NODE.fullmatch(name))):
        try:
            cpus = cpu_list(root.read_or_none(f"{_NODES}/node{number}/cpulist"))
            socket = _socket(root, cpus or ())
        except HostError as error:
            problems.append(Problem(f"NUMA node {number}", error.code, error.message))
            cpus = socket = None
        if cpus != []:
            found[number] = socket
    return found, problems


def cpu_list(text: str | None) -> list[int] | None:
    """The CPUs of a list as the kernel prints it, ``0-3,8``; empty for "", None for what is no such list."""
    found: list[int] = []
    for part in (text or "").strip().split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return [] if text is not None and not text.strip() else None
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or len(found) + last - first >= _MOST_CPUS:
            return None
        found += range(first, last + 1)
    return found


def _socket(root: Root, cpus: Sequence[int]) -> int | None:
    told = {root.read_or_none(f"{_CPUS}/cpu{cpu}/topology/physical_package_id") for cpu in cpus}
    said = told - {None}  # None: went offline since the list was read
    only = said.pop() if len(said) == 1 else None
    return int(only) if only is not None and _PACKAGE.fullmatch(only) else None
