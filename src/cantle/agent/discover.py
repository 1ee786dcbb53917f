"""Looking at the host, and what it comes to as a report."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from cantle.drivers import loader
from cantle.drivers.driver import Driver, HostView
from cantle.kernel import mdev, pci
from cantle.kernel.pci_ids import PciIds
from cantle.kernel.root import Root
from cantle.model.enabled_types import EnabledTypes
from cantle.wire.inventory import InventoryReport, Problem
from cantle.wire.work import WantedHandle


def look(
    hostname: str,
    root: Root,
    enabled: EnabledTypes,
    ours: Mapping[str, WantedHandle],
    names: PciIds | None = None,
) -> tuple[HostView, list[Problem]]:
    """Read the host once for all drivers. What could not be read of single functions is told beside it.

    :raises HostError: when the whole of something cannot be read: then nothing is known, and nothing must be reported.
    """
    functions, problems = pci.functions(root)
    view = HostView(hostname, root, enabled, functions, mdev.parents(root), mdev.devices(root), ours, names)
    told = [Problem(*problem) for problem in problems]
    return view, told + list(_absent(view))


def report(view: HostView, drivers: Sequence[Driver], problems: Iterable[Problem], agent_start: str) -> InventoryReport:
    """Everything the drivers make of it. ``problems`` are those known already.

    The digest is of what is reported and nothing else: two looks that saw the same have the same.
    """
    devices, more = loader.discover(drivers, view)
    told = (*problems, *more)
    text = msgspec.json.encode((devices, told), order="deterministic")
    return InventoryReport(agent_start, hashlib.sha256(text).hexdigest(), tuple(devices), told)


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
