"""The unit of a card: what has to change hands together, and whether the IOMMU can keep it apart from the rest of the host.

A graphics card is rarely one PCI function: its audio, USB-C and UCSI functions share its slot or are tied to it by device links, and
a guest that gets only some of them gets a broken card. All functions of a slot are therefore one unit.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass

from cantle.errors import BadRequest, CantleError, Conflict, HostError, NotFound
from cantle.kernel import holders, iommu, mdev, modules, pci
from cantle.kernel.root import Root
from cantle.model.pci import HOST_BRIDGE, PCI_BRIDGE, PciAddress, PciFunction

#: What a device link may add to a unit: HD audio, USB controllers, USB-C port managers (UCSI).
COMPANION_CLASSES = frozenset({"0403", "0c03", "0c80"})

#: Transparent to isolation, and never given away. Exactly these: a mask of the base class would also catch 0680, NVIDIA's NVSwitch.
BRIDGES = frozenset({PCI_BRIDGE, HOST_BRIDGE})

#: Drivers that leave DMA alone (``driver_managed_dma`` in the kernel): a group stays viable with them in it.
HARMLESS_DRIVERS = frozenset({"vfio-pci", "pci-stub", "pcieport"})

#: Storage and network: the host may hang on them, so they never go along with a card unasked.
_HOST_BASE_CLASSES = ("01", "02")


@dataclass(frozen=True, slots=True)
class Unit:
    """A card and the functions that go with it, as they were when it was looked up."""

    card: PciFunction
    companions: tuple[PciFunction, ...] = ()

    @property
    def functions(self) -> tuple[PciFunction, ...]:
        """All of them, the card first."""
        return self.card, *self.companions


def find(root: Root, address: PciAddress, hardware: str = "") -> Unit:
    """The unit of the card at this address. A virtual function is a unit by itself: it shares a slot only by counting.

    :param hardware: vendor and device id (``10de:1eb8``) that must be there; "" for any.
    :raises NotFound: ``pci-device-not-found``.
    :raises Conflict: ``other-hardware``: another card sits at this address now.
    """
    card = _function(root, address)
    if card is None:
        raise NotFound(
            "pci-device-not-found",
            f"there is no PCI device at {address}; 'cantle scan' shows those there are",
            address=str(address),
        )
    found = f"{card.vendor_id}:{card.device_id}"
    if hardware and found != hardware:
        raise Conflict(
            "other-hardware",
            f"{address} is {found} now, not {hardware} as when it was chosen (addresses move when cards are added or"
            " removed); look the card up again and say which one is meant",
            address=str(address),
            found=found,
            meant=hardware,
        )
    if card.physfn is not None:
        return Unit(card)
    companions = (_function(root, other) for other in sorted(_related(root, address)))
    return Unit(card, tuple(one for one in companions if one is not None and _goes_along(one, card)))


def check(root: Root, unit: Unit) -> None:
    """Refuse a unit that cannot be taken from the host as a whole, before anything is touched.

    :raises Conflict: the first of :func:`objections`; the messages of all are in ``details["objections"]``.
    """
    found = objections(root, unit)
    if found:
        found[0].details["objections"] = [objection.message for objection in found]
        raise found[0]


def objections(root: Root, unit: Unit) -> list[CantleError]:
    """Every reason why this unit cannot be passed through now, unraised; none is good news.

    Codes: ``device-dead``, ``vfs-enabled``, ``mdevs-exist``, ``host-depends-on-device``, ``iommu-off``, ``no-iommu-group``,
    ``iommu-group-shared``, ``vfio-pci-missing``.
    """
    found = [*virtual_functions(root, unit), *_mediated_devices(root, unit)]
    for function in unit.functions:
        found += _of_function(root, unit, function)
    return [*found, *_of_groups(root, unit), *_of_kernel(root, unit)]


def virtual_functions(root: Root, unit: Unit) -> list[CantleError]:
    """An objection ``vfs-enabled`` for each function of the unit that has virtual functions: they would die with its driver."""
    return [
        Conflict(
            "vfs-enabled",
            f"{function.address} has {function.sriov_enabled} virtual functions, which would die with its driver; give"
            f" them back and write 0 to {root.host_path(pci.DEVICES)}/{function.address}/sriov_numvfs first",
            address=str(function.address),
            enabled=function.sriov_enabled,
        )
        for function in unit.functions
        if function.sriov_enabled
    ]


def _mediated_devices(root: Root, unit: Unit) -> list[CantleError]:
    """Of each function that is a parent of some: its driver removes them all when it has to let go, or waits for their guests."""
    made = mdev.devices(root)
    found: list[CantleError] = []
    for function in unit.functions:
        mine = [one for one in made if one.parent == str(function.address)]
        if mine:
            named = ", ".join(f"{one.uuid} ({one.type_id})" for one in mine)
            found.append(
                Conflict(
                    "mdevs-exist",
                    f"{function.address} carries mediated devices, which would die with its driver: {named};"
                    " release the leases they belong to, or remove those that are not Cantle's",
                    address=str(function.address),
                    uuids=[one.uuid for one in mine],
                )
            )
    return found


def _function(root: Root, address: PciAddress) -> PciFunction | None:
    try:
        return pci.function(root, address)
    except HostError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):
            return None
        raise


def _related(root: Root, address: PciAddress) -> set[PciAddress]:
    """Other functions of the slot, and those at the other end of a device link."""
    slot = str(address)[:-1]  # "0000:17:00.": a host has hundreds of names, so they are compared before they are parsed
    related = _addresses(name for name in root.names(pci.DEVICES) if name.startswith(slot))
    links = (name.split(":", 2) for name in root.names(f"{pci.DEVICES}/{address}"))
    related |= _addresses(link[2] for link in links if link[0] in ("consumer", "supplier") and link[1:2] == ["pci"])
    return related - {address}


def _goes_along(function: PciFunction, card: PciFunction) -> bool:
    if function.physfn is not None or function.class_code in BRIDGES:
        return False
    return function.address.slot_key == card.address.slot_key or function.class_code in COMPANION_CLASSES


def _addresses(names: Iterable[str]) -> set[PciAddress]:
    found = set()
    for name in names:
        try:
            found.add(PciAddress.parse(name))
        except BadRequest:
            continue  # not a PCI function: a platform device, an mdev
    return found


def _of_function(root: Root, unit: Unit, function: PciFunction) -> list[CantleError]:
    found: list[CantleError] = []
    where = str(function.address)
    if function.vendor_id == "ffff":
        found.append(
            Conflict(
                "device-dead",
                f"{where} answers nothing but ones: it fell off the bus or hangs; reset or power-cycle the host",
                address=where,
            )
        )
    uses = holders.host_uses(root, function.address)
    if function is not unit.card and function.class_id[:2] in _HOST_BASE_CLASSES and not _harmless(function.driver):
        uses.append(f"it is {_what(function.class_id, function.driver)} in the card's slot")
    if uses:
        found.append(
            Conflict(
                "host-depends-on-device",
                f"the host itself uses {where}: {'; '.join(uses)}; stop that first, or leave the card to the host",
                address=where,
                uses=uses,
            )
        )
    return found


def _of_groups(root: Root, unit: Unit) -> list[CantleError]:
    ours = {str(function.address) for function in unit.functions}
    groups: dict[int, list[str]] = {}
    for function in unit.functions:
        if function.iommu_group is None:
            return [_without_group(root, function)]
        groups.setdefault(function.iommu_group, []).append(str(function.address))
    found: list[CantleError] = []
    for group, mine in sorted(groups.items()):
        if iommu.is_noiommu(root, group):
            return [_iommu_off(mine[0], "its group is only a stand-in (enable_unsafe_noiommu_mode)")]
        members = iommu.members(root, group)
        foreign = [text for name in members if name not in ours and (text := _foreign(root, group, name))]
        if foreign:
            found.append(
                Conflict(
                    "iommu-group-shared",
                    f"IOMMU group {group} of {', '.join(mine)} also holds {'; '.join(foreign)}: a guest would reach into"
                    " what the host uses. Move the card to another slot, or give these devices up (unbind their drivers)",
                    group=group,
                    members=foreign,
                )
            )
    return found


def _of_kernel(root: Root, unit: Unit) -> list[CantleError]:
    """Whether there is a driver to give the unit to."""
    if modules.can_be_had(root, "vfio-pci") is not False:
        return []
    return [
        Conflict(
            "vfio-pci-missing",
            f"{unit.card.address} cannot be lent whole: kernel {modules.release(root)} has no module vfio-pci. Install the package that"
            " has it, or reboot if the kernel was changed since",
            address=str(unit.card.address),
        )
    ]


def _foreign(root: Root, group: int, name: str) -> str | None:
    """A member of a group in words, if the host uses it in a way that keeps the group from being given away."""
    place = f"{iommu.GROUPS}/{group}/devices/{name}"
    driver = root.link_name(f"{place}/driver")
    if driver is None or _harmless(driver) or root.names(f"{place}/vfio-dev"):
        return None
    class_id = (root.read_or_none(f"{place}/class") or "").removeprefix("0x")
    if class_id[:4] in BRIDGES:
        return None
    return f"{name} ({_what(class_id, driver)})"


def _without_group(root: Root, function: PciFunction) -> CantleError:
    where = str(function.address)
    if not iommu.enabled(root):
        return _iommu_off(where, iommu.why_off(root))
    return Conflict(
        "no-iommu-group",
        f"{where} is in no IOMMU group although others are: the IOMMU does not cover it (firmware tables, or a bridge"
        " that is left out); update the firmware or move the card",
        address=where,
    )


def _iommu_off(where: str, why: str) -> CantleError:
    return Conflict(
        "iommu-off",
        f"{where} cannot be lent whole without an IOMMU: {why}. Turn it on in the firmware's setup and, on Intel, boot the"
        " kernel with intel_iommu=on",
        address=where,
    )


def _harmless(driver: str | None) -> bool:
    return driver is None or driver in HARMLESS_DRIVERS


def _what(class_id: str, driver: str | None) -> str:
    kind = {"01": "storage", "02": "network", "03": "display", "04": "multimedia", "0c": "serial bus"}.get(class_id[:2])
    named = f"class {class_id[:4] or 'unknown'}{f', {kind}' if kind else ''}"
    return f"{named}, driver {driver or 'none'}"
