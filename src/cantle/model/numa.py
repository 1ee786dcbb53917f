"""NUMA affinity between the devices of one request and the memory nodes of their guest (reference section 1.4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

#: A host's sockets by memory node; None for a node of which the host does not know it. A node without CPUs is on none and not in it.
Sockets = Mapping[int, int | None]


class NumaPolicy(StrEnum):
    """Nova's words, in the order of strictness. A node that the kernel does not know (its -1) is None, never node 0."""

    REQUIRED = "required"
    """Devices of the guest's nodes only."""
    SOCKET = "socket"
    """Devices of any node on the sockets of the guest's nodes; none where the host does not say which socket a node is on."""
    LEGACY = "legacy"
    """Devices of the guest's nodes, or of an unknown node."""
    PREFERRED = "preferred"
    """Any device, those of the guest's nodes first."""


def allows(policy: NumaPolicy, node: int | None, nodes: Collection[int], sockets: Sockets | None = None) -> bool:
    """Whether a device on ``node`` may go to a guest on ``nodes``.

    :param sockets: None where the host does not tell them.
    """
    if node is not None and node in nodes:
        return True
    match policy:
        case NumaPolicy.REQUIRED:
            return False
        case NumaPolicy.LEGACY:
            return node is None
        case NumaPolicy.PREFERRED:
            return True
        case NumaPolicy.SOCKET:
            return node is not None and node in same_sockets(nodes, sockets)


def are_known(sockets: Sockets | None) -> bool:
    """Whether a host tells the socket of each of its nodes."""
    return bool(sockets) and None not in (sockets or {}).values()


def same_sockets(nodes: Collection[int], sockets: Sockets | None) -> frozenset[int]:
    """All nodes on the sockets of these nodes; empty where a host does not tell the socket of each of its nodes."""
    if sockets is None or not are_known(sockets):
        return frozenset()
    theirs = {sockets[node] for node in nodes if node in sockets}
    return frozenset(node for node, socket in sockets.items() if socket in theirs)
