"""What a driver is: it says what one kind of hardware on a host means.

A driver is a class registered as an entry point of the group ``cantle.drivers``, made once per agent without arguments. It only
looks: making a unit ready is the agent's work. ``CONTRIBUTING.md`` shows one in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cantle.kernel.mdev import MdevDevice
from cantle.kernel.pci_ids import PciIds
from cantle.kernel.root import Root
from cantle.model.enabled_types import EnabledTypes
from cantle.model.pci import PciFunction
from cantle.wire.inventory import DeviceReport
from cantle.wire.work import WantedHandle


@dataclass(frozen=True, slots=True)
class HostView:
    """A host at one moment, read once for all drivers.

    :param functions: all PCI functions, by address.
    :param parents: names of the mediated-device parents.
    :param mdevs: all mediated devices that exist, ours and others'.
    :param ours: units that the server has lent or is taking back, by uuid. A mediated device whose uuid is not here belongs to
        somebody else and is never counted as free.
    """

    hostname: str
    root: Root
    enabled: EnabledTypes
    functions: Sequence[PciFunction] = ()
    parents: Sequence[str] = ()
    mdevs: Sequence[MdevDevice] = ()
    ours: Mapping[str, WantedHandle] = field(default_factory=dict)
    names: PciIds | None = None

    def lent(self, address: str) -> list[WantedHandle]:
        """Our units of one device, by uuid."""
        return [self.ours[uuid] for uuid in sorted(self.ours) if self.ours[uuid].device == address]


class Driver(Protocol):
    """One kind of hardware."""

    name: str

    def discover(self, host: HostView) -> Sequence[DeviceReport]:
        """Every device of this kind, lendable or not, each with a reason if not. Writes nothing.

        What one device raises must not hide the others: report that one as degraded. An exception from here costs all devices of
        this driver until the next look.
        """
        ...
