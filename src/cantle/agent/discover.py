"""Looking at the host, and what it comes to as a report."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from cantle.drivers import loader
from cantle.drivers.driver import Driver, HostView, Known
from cantle.drivers.label import INTERFACES
from cantle.kernel import holders, mdev, netdev, numa, pci, vfio
from cantle.kernel.pci_ids import PciIds
from cantle.kernel.root import Root
from cantle.model.attach_handle import AttachType
from cantle.model.enabled_types import EnabledTypes
from cantle.model.intent import Intent
from cantle.model.pci import PciFunction
from cantle.wire.inventory import DeviceReport, InventoryReport, Problem
from cantle.wire.work import WantedHandle

#: Mediated devices named in a condition; more are counted.
_NAMED = 8


def look(
    hostname: str,
    root: Root,
    enabled: EnabledTypes,
    ours: Mapping[str, WantedHandle],
    names: PciIds | None = None,
    *,
    wishes: Mapping[str, Intent] | None = None,
    known: Mapping[str, Known] | None = None,
    left: Sequence[WantedHandle] = (),
) -> tuple[HostView, list[Problem]]:
    """Read the host once for all drivers. What could not be read of single functions is told beside it.

    :raises HostError: when the whole of something cannot be read: then nothing is known, and nothing must be reported.
    """
    functions, problems = pci.functions(root)
    parents, mdevs = mdev.parents(root), mdev.devices(root)
    held = _held(root, functions, ours)
    sockets, unread = numa.sockets(root)
    interfaces = netdev.functions(root, enabled.labelling.whitelist.devnames)
    view = HostView(
        *(hostname, root, enabled, functions, parents, mdevs, ours, names, wishes or {}, known or {}, held, left),
        sockets=sockets,
        interfaces=interfaces,
    )
    told = [Problem(*problem) for problem in (*problems, *unread)]
    return view, told + list(_absent(view))


def report(
    view: HostView,
    drivers: Sequence[Driver],
    problems: Iterable[Problem],
    agent_start: str,
    told_of: Callable[[DeviceReport], DeviceReport] = lambda device: device,
) -> InventoryReport:
    """Everything the drivers make of it. ``problems`` are those known already; ``told_of`` adds to a device what the agent knows of it.

    The digest is of what is reported and nothing else: two looks that saw the same have the same.
    """
    found, more = loader.discover(drivers, view)
    devices = [told_of(device) for device in found]
    told = (*problems, *more)
    sockets = dict(view.sockets)
    text = msgspec.json.encode((devices, told, sorted(sockets.items())), order="deterministic")
    return InventoryReport(agent_start, hashlib.sha256(text).hexdigest(), tuple(devices), told, sockets=sockets)


def remember(known: Mapping[str, Known], devices: Iterable[DeviceReport]) -> dict[str, Known]:
    """What is known of the host's cards after a report. A card that is not in it is not forgotten; one in whose place another sits is."""
    return {**known, **{device.address: _known(known.get(device.address), device) for device in devices}}


def _known(before: Known | None, device: DeviceReport) -> Known:
    hardware = f"{device.vendor_id}:{device.product_id}" if device.vendor_id else ""
    offered = next((one.resource_class for one in device.deployables), None)
    if offered is None and before is not None and before.hardware == hardware:
        offered = before.resource_class
    interfaces = tuple(device.vendor_board_info.get(INTERFACES, "").split())
    return Known(hardware, device.capabilities, device.mdev_types, offered or "", interfaces)


def adopted(view: HostView, before: Iterable[str], devices: Iterable[DeviceReport]) -> tuple[str, ...]:
    """Uuids of mediated devices that somebody else made and that we lend: those offered now, and those of before that are still there or
    lent."""
    there = {one.uuid for one in view.mdevs} | view.ours.keys()
    offered = {handle.uuid for device in devices for one in device.deployables for handle in one.handles if handle.uuid}
    return tuple(sorted(offered | {uuid for uuid in before if uuid in there}))


def foreign(view: HostView, adopted: Iterable[str]) -> str | None:
    """The mediated devices of a host that somebody else made, in words; None for none."""
    ours = view.ours.keys() | set(adopted)
    others = [f"{one.uuid} ({one.type_id} on {one.parent})" for one in view.mdevs if one.uuid not in ours]
    if not others:
        return None
    named = ", ".join(others[:_NAMED]) + (f" and {len(others) - _NAMED} more" if len(others) > _NAMED else "")
    return f"mediated devices that Cantle did not make, left alone and counted as used: {named}"


def _held(root: Root, functions: Iterable[PciFunction], ours: Mapping[str, WantedHandle]) -> dict[str, str]:
    """Cards on vfio-pci that are not lent and that somebody has: a guest that was started by hand, or lent before a database was restored
    from a backup. The processes are looked through only where there is such a card at all."""
    lent = {handle.device for handle in ours.values() if handle.attach_type is AttachType.PCI}
    nodes: dict[str, list[str]] = {}
    for function in functions:
        if function.driver == vfio.VFIO_PCI and str(function.address) not in lent:
            for node in holders.vfio_nodes(root, function.address):
                nodes.setdefault(node, []).append(str(function.address))
    if not nodes:
        return {}
    found: dict[str, list[str]] = {}
    for holder in holders.holders(root, nodes).holders:
        for address in nodes[holder.path]:
            found.setdefault(address, []).append(str(holder))
    return {address: "; ".join(words) for address, words in found.items()}


def _absent(view: HostView) -> Iterable[Problem]:
    """Configured cards that this host does not have: most likely a slip of the pen, and the card meant would be lent whole."""
    here = {str(function.address) for function in view.functions} | set(view.parents)
    for parent in view.parents:
        here.update(mdev.other_names(view.root, parent))
    for one in view.enabled.types:
        for address in one.addresses:
            if address not in here:
                message = f"{one.type_id} is enabled for {address}, but {view.hostname} has no such {_kind(address)}"
                yield Problem(address, "config-address-absent", message)


def _kind(address: str) -> str:
    return "PCI function" if ":" in address else "parent of mediated devices"
