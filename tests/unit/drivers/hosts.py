"""Simulated hosts as the driver tests look at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cantle import simulate
from cantle.agent import discover
from cantle.drivers.driver import Driver, Known
from cantle.kernel.pci_ids import PciIds
from cantle.model.attach_handle import AttachType
from cantle.model.enabled_types import EnabledType, EnabledTypes
from cantle.model.intent import Intent
from cantle.wire.inventory import DeviceReport, InventoryReport
from cantle.wire.work import WantedHandle

T4 = "0000:af:00.0"
M40 = "0000:86:00.0"
FIRST = "11111111-2222-4333-8444-555555555555"
SECOND = "11111111-2222-4333-8444-666666666666"

#: The configuration of the worked example (spec S0.9).
SEED = EnabledTypes((EnabledType("nvidia-223", addresses=(T4,)),))


def report(
    root: simulate.SimulatedRoot,
    driver: Driver,
    enabled: EnabledTypes,
    *ours: WantedHandle,
    wishes: Sequence[Intent] = (),
    known: Mapping[str, Known] | None = None,
) -> InventoryReport:
    """What one driver finds on a host."""
    view, problems = discover.look(
        "node1",
        root,
        enabled,
        {one.uuid: one for one in ours},
        PciIds(root),
        wishes={one.device: one for one in wishes},
        known=known,
    )
    return discover.report(view, [driver], problems, "start")


def devices(
    root: simulate.SimulatedRoot,
    driver: Driver,
    enabled: EnabledTypes = SEED,
    *ours: WantedHandle,
    wishes: Sequence[Intent] = (),
    known: Mapping[str, Known] | None = None,
) -> dict[str, DeviceReport]:
    """The same, by address."""
    found = report(root, driver, enabled, *ours, wishes=wishes, known=known)
    return {one.address: one for one in found.devices}


def seen(found: Mapping[str, DeviceReport]) -> dict[str, Known]:
    """What a host remembers after that look."""
    return discover.remember({}, found.values())


def lent_mdev(uuid: str, mark: str, device: str = T4) -> WantedHandle:
    """One of our mediated devices as the server would name it."""
    info = {"asked_type": mark.rpartition("_")[0], "vgpu_mark": mark}
    return WantedHandle(uuid, device, AttachType.MDEV, info)


def marks(device: DeviceReport) -> list[str]:
    """Keys of a device's only deployable."""
    [deployable] = device.deployables
    return [handle.key for handle in deployable.handles]


def described(yaml: str, place: Path) -> simulate.SimulatedRoot:
    """A host from a text."""
    return simulate.build(simulate.description.parse(yaml.encode(), "test"), place)
