"""Where the compute service lends the same devices by itself (spec S3.2): what of ours is held back for that, and why. Pure.

Two ways to collide. By device: Nova publishes a card of its own PCI list, named ``<host>_<ADDRESS>`` (PCI in Placement), or a parent of
its mediated devices, named ``<host>_pci_<address with underscores>``. By class: a nova-compute that makes mediated devices of a class
takes any allocation of that class in its tree for its own, looks for the parent in the provider's name, and fails the boot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cantle.model.device_spec import Candidate, Whitelist
from cantle.model.pci import PciAddress
from cantle.model.provider import Node, Provider
from cantle.placement.wanted import Part

#: On every provider that is Nova's (os-traits).
NOVA_TRAIT = "OWNER_NOVA"

_LIBVIRT_PCI = re.compile(r"pci_([0-9a-f]{4,8})_([0-9a-f]{2})_([0-9a-f]{2})_([0-7])")
_PCI = re.compile(r"[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7]")


@dataclass(frozen=True, slots=True)
class Lent:
    """What the compute service of a host lends by itself: PCI addresses as sysfs spells them, with the word for where that was seen; and
    resource classes of its mediated devices."""

    addresses: Mapping[str, str]
    classes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NovaConf:
    """What a nova.conf says of devices that the compute service lends by itself.

    :param place: the file, for people.
    :param whitelist: its ``[pci] device_spec``.
    :param parents: PCI addresses with a mediated type enabled, as sysfs spells them.
    :param classes: resource classes of its mediated types.
    """

    place: str
    whitelist: Whitelist
    parents: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()

    def lends(self, devices: Iterable[Candidate]) -> Lent:
        """Of these devices, what it lends."""
        listed = {str(one.address): f"[pci] device_spec in {self.place}" for one in devices if self.whitelist.of(one)}
        mediated = f"enabled_mdev_types in {self.place}"
        return Lent({**listed, **dict.fromkeys(self.parents, mediated)}, dict.fromkeys(self.classes, mediated))


def address_of(root: str, name: str) -> str | None:
    """The PCI address in the name of one of Nova's providers; None if it is none of those."""
    rest = name.removeprefix(f"{root}_")
    if rest == name:
        return None
    parent = _LIBVIRT_PCI.fullmatch(rest)
    if parent is not None:
        return str(PciAddress.parse("{}:{}:{}.{}".format(*parent.groups())))
    return str(PciAddress.parse(rest.lower())) if _PCI.fullmatch(rest) else None


def suspects(root: Node, others: Iterable[Node]) -> list[Node]:
    """Providers in a host's tree that look like Nova's own by name: worth reading."""
    return [node for node in others if address_of(root.name, node.name) is not None]


def lent(root: Node, providers: Iterable[Provider]) -> Lent:
    """What Nova lends by itself, read off its own providers."""
    addresses: dict[str, str] = {}
    classes: dict[str, str] = {}
    for one in providers:
        address = address_of(root.name, one.name)
        if address is None or "OWNER_CYBORG" in one.traits:
            continue
        addresses[address] = f"provider {one.name}"
        if _LIBVIRT_PCI.search(one.name):
            classes.update(dict.fromkeys(one.inventories, f"provider {one.name}"))
    return Lent(addresses, classes)


def withheld(parts: Sequence[tuple[Part, str]], nova: Lent) -> dict[str, str]:
    """By provider uuid, why it is held back.

    :param parts: each with the address of its device.
    """
    found: dict[str, str] = {}
    for part, address in parts:
        if address in nova.addresses:
            found[part.uuid] = (
                f"overlap: the compute service lends {address} by itself ({nova.addresses[address]}). Take it out of one of the two."
            )
        elif part.resource_class in nova.classes:
            found[part.uuid] = (
                f"overlap: the compute service makes mediated devices of class {part.resource_class} on this host by itself "
                f"({nova.classes[part.resource_class]}) and would take ours for its own. Give ours another class: mdev_class = in its "
                "[mdev_...] section."
            )
    return found
