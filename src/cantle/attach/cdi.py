"""Container Device Interface: files that tell container engines which device nodes a name stands for.

The specification: github.com/cncf-tags/container-device-interface, SPEC.md. Written is the lowest version that has what a file needs, so
that the oldest engines read it. No majors and minors: the engine takes them from the node when it starts a container, which is right
after every boot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from cantle.errors import CantleError, Conflict, HostError
from cantle.kernel import node, nvidia, pci
from cantle.kernel.char_device import Node
from cantle.kernel.root import Root
from cantle.model import classify
from cantle.model.problem import Problem

#: Files that engines read: of this boot, and lasting ones. The former go first where both have a device.
DYNAMIC = "run/cdi"
STATIC = "etc/cdi"

#: Of leases; ``cantle/lease=NAME`` is what an engine is asked for.
LEASE_KIND = "cantle/lease"
#: Of whole cards, by address: ``cantle/card=0000:af:00.0``.
CARD_KIND = "cantle/card"

_PREFIX = "cantle-lease-"
#: Without it NVIDIA's own runtime would give all cards to a container that says nothing.
_NVIDIA_ENV = "NVIDIA_VISIBLE_DEVICES=void"


def document(kind: str, devices: Mapping[str, Iterable[Node]]) -> bytes:
    """A specification file: each device by name, with its nodes.

    :raises Conflict: ``no-device-nodes``: a file without a device is no file to engines, and a device needs a node.
    """
    entries = [{"name": name, "containerEdits": _edits(sorted(set(nodes)))} for name, nodes in devices.items()]
    if not entries or not all(entry["containerEdits"] for entry in entries):
        raise Conflict("no-device-nodes", f"nothing to write for {kind}: there is no device with a node of its own")
    spec = {"cdiVersion": _version(kind, devices), "kind": kind, "devices": entries}
    return msgspec.json.format(msgspec.json.encode(spec), indent=2) + b"\n"


def write(root: Root, lease: str, name: str, nodes: Iterable[Node]) -> None:
    """Make the file of a lease, or make it new. When this returns, engines that read the directory have the one or the other.

    :param lease: the lease's uuid.
    :raises Conflict: ``cdi-name-taken``: another lease goes by this name on this host; ``no-device-nodes``.
    :raises HostError: ``host-write-failed``; what was there still is.
    """
    for other, names in _others(root, lease):
        if name in names:
            raise Conflict(
                "cdi-name-taken",
                f"{LEASE_KIND}={name} is lease {other} on this host already: engines refuse a name that two files have. Take another "
                "name, or release that lease",
                name=name,
                lease=other,
            )
    data = document(LEASE_KIND, {name: nodes})
    try:
        root.replace(path(lease), data)
    except HostError as error:
        mend = "Container engines look for a lease there: let root write there, and it is tried again"
        raise HostError(error.code, f"{error.message}. {mend}", path=error.path, errno=error.errno) from error


def remove(root: Root, lease: str) -> None:
    """Take the file of a lease away, if there is one. A container that was started with it keeps what it has open.

    :raises HostError: ``host-write-failed``.
    """
    root.remove(path(lease))


def read(root: Root, lease: str) -> bytes | None:
    """The file of a lease as it is; None when there is none."""
    return root.read_bytes(path(lease)) if root.exists(path(lease)) else None


def cards(root: Root) -> tuple[dict[str, tuple[Node, ...]], list[Problem]]:
    """The nodes of every card that has some, by address, and of each MIG slice (``0000:af:00.0:gi1:ci0``); and why another card has none.
    One card hides no other."""
    functions, problems = pci.functions(root)
    found = {}
    for one in functions:
        if classify.is_card(one) and not classify.is_bmc_display(one):
            try:
                found[str(one.address)] = node.of_card(root, one.address)
                for gpu_instance, compute_instance in nvidia.mig_slices(root, one.address):
                    its = node.of_slice(root, one.address, gpu_instance, compute_instance)
                    found[f"{one.address}:gi{gpu_instance}:ci{compute_instance}"] = its
            except CantleError as error:
                problems.append(Problem(str(one.address), error.code, error.message))
    return found, problems


def path(lease: str) -> str:
    """Where the file of a lease lies, below the root."""
    return f"{DYNAMIC}/{_PREFIX}{lease}.json"


def _edits(nodes: Sequence[Node]) -> dict[str, Any]:
    edits: dict[str, Any] = {}
    if any("/nvidia" in one.path for one in nodes):
        edits["env"] = [_NVIDIA_ENV]
    if nodes:
        edits["deviceNodes"] = [{"path": one.path, "type": "c", "permissions": "rw"} for one in nodes]
    return edits


def _version(kind: str, devices: Mapping[str, object]) -> str:
    """SPEC.md's table "Released Versions"."""
    if "." in kind.partition("/")[2]:
        return "0.6.0"
    return "0.5.0" if any(name[:1].isdigit() for name in devices) else "0.3.0"


def _others(root: Root, lease: str) -> Iterator[tuple[str, list[str]]]:
    """Each other lease that has a file, and the names in it. What cannot be understood is none of ours and passed over."""
    for file in root.names(DYNAMIC):
        other = file.removeprefix(_PREFIX).removesuffix(".json")
        if file == f"{_PREFIX}{other}.json" and other != lease:
            try:
                found = msgspec.json.decode(root.read_bytes(f"{DYNAMIC}/{file}"), type=_Names)
            except msgspec.DecodeError:
                continue
            yield other, [one.name for one in found.devices]


class _Name(msgspec.Struct):
    name: str


class _Names(msgspec.Struct):
    devices: list[_Name]
