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
from cantle.model.intent import Intent
from cantle.model.pci import PciFunction
from cantle.wire.inventory import DeviceReport
from cantle.wire.work import WantedHandle


@dataclass(frozen=True, slots=True)
class Known:
    """What a card was when it was last seen well: the host's own memory, kept over reboots. JSON-able.

    :param hardware: vendor and device id, ``10de:1eb8``; what is known of another card at its address does not count.
    :param capabilities: the modes it could be in.
    :param mdev_types: as in :class:`cantle.wire.inventory.DeviceReport`.
    :param resource_class: of what it offered last; "" for nothing.
    :param interfaces: its network interfaces by which a whitelist has named it: they are gone while it is on vfio-pci.
    """

    hardware: str
    capabilities: tuple[str, ...] = ()
    mdev_types: dict[str, dict[str, str]] = field(default_factory=dict)
    resource_class: str = ""
    interfaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostView:
    """A host at one moment, read once for all drivers.

    :param functions: all PCI functions, by address.
    :param parents: names of the mediated-device parents.
    :param mdevs: all mediated devices that exist, ours and others'.
    :param ours: units that the server has lent or is taking back, by uuid. A mediated device whose uuid is not here belongs to
        somebody else and is never counted as free.
    :param wishes: what operators want of devices, by address, as far as it has been applied. It goes before ``enabled``.
    :param known: what is remembered of devices, by address.
    :param left: units that were lent, that no lease has any more and that somebody may still hold: their names are not given to others.
    :param held: cards on vfio-pci that are not lent and that somebody has all the same, by address: who, in words.
    :param sockets: of the host, by memory node, as `cantle.kernel.numa.sockets` tells them.
    :param interfaces: of those that the whitelist names, the addresses of their PCI functions, by name.
    """

    hostname: str
    root: Root
    enabled: EnabledTypes
    functions: Sequence[PciFunction] = ()
    parents: Sequence[str] = ()
    mdevs: Sequence[MdevDevice] = ()
    ours: Mapping[str, WantedHandle] = field(default_factory=dict)
    names: PciIds | None = None
    wishes: Mapping[str, Intent] = field(default_factory=dict)
    known: Mapping[str, Known] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    left: Sequence[WantedHandle] = ()
    sockets: Mapping[int, int | None] = field(default_factory=dict)
    interfaces: Mapping[str, str] = field(default_factory=dict)

    def known_of(self, address: str, hardware: str) -> Known:
        """What is remembered of this very card; of another one, nothing."""
        known = self.known.get(address)
        return known if known is not None and known.hardware == hardware else Known(hardware)

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
