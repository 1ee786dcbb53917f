"""A simulated host's memory nodes and their CPUs, as sysfs shows them.

Shapes: Documentation/ABI/stable/sysfs-devices-node, sysfs-devices-system-cpu.
"""

from __future__ import annotations

from cantle.simulate.description import Description
from cantle.simulate.tree import Tree

_NODES = "sys/devices/system/node"
_CPUS = "sys/devices/system/cpu"


def lay_memory_nodes(tree: Tree, described: Description) -> None:
    """Nodes in the order of their numbers, each with the next so many CPUs."""
    first = 0
    for one in sorted(described.numa_nodes, key=lambda each: each.number):
        last = first + one.cpus - 1
        tree.put(f"{_NODES}/node{one.number}/cpulist", _range(first, last) if one.cpus else "")
        for cpu in range(first, last + 1):
            socket = -1 if one.socket is None else one.socket
            tree.put(f"{_CPUS}/cpu{cpu}/topology/physical_package_id", str(socket))
        first = last + 1


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
