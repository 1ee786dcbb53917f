"""What it takes to bring a card to a mode: the steps to do it, and the same in detail to be shown beforehand. Changes nothing.

How the modes look on a host:

* ``passthrough``: every function of the card's unit is on vfio-pci, and stays there, lent or not. (A card that is lent whole without an
  intent goes to vfio-pci when it is lent and back to its drivers when it is given back.)
* ``mdev``: the card is on its own driver, which offers the type; its mediated devices are made as they are lent.
* no intent: what we took from its drivers goes back to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cantle.agent.converge import LEND_WHOLE, TAKE_BACK_WHOLE
from cantle.agent.hands import AWAIT_TYPE, type_missing
from cantle.errors import CantleError, Conflict
from cantle.kernel import mdev, pci, vfio
from cantle.kernel import unit as units
from cantle.kernel.root import Root
from cantle.kernel.unit import Unit
from cantle.kernel.vfio import Original
from cantle.model.attach_handle import AttachType
from cantle.model.device import Mode
from cantle.model.intent import MODES, Intent, is_pci
from cantle.model.pci import PciAddress
from cantle.model.step import Plan, Step
from cantle.wire.intent import PlanReport
from cantle.wire.inventory import DeviceReport
from cantle.wire.work import WantedHandle

#: Seconds a driver that has just got a card back may take to offer its types.
SETTLE = 10.0


def is_there(root: Root, device: str) -> bool:
    """Whether the host has this device now."""
    if is_pci(device):
        return root.exists(f"{pci.DEVICES}/{device}")
    return device in mdev.parents(root)


def steps(
    root: Root,
    device: str,
    wish: Intent | None,
    *,
    configured: str | None,
    taken: Mapping[str, object],
    lent: Sequence[WantedHandle],
) -> list[Step]:
    """Steps for :class:`cantle.agent.hands.Hands` that bring a device to what is wanted of it; none when it is so.

    :param wish: None for what the configuration says.
    :param configured: the type that is enabled for it, if any.
    :param taken: cards that we took from their drivers.
    :param lent: our units of it.
    :raises CantleError: why it cannot be brought there now; ``other-hardware``, ``device-in-use``, ``mode-not-possible``,
        ``mdev-type-not-chosen``, ``mdev-type-missing``, ``mdevs-exist`` and what cannot be read.
    """
    if wish is None:
        whole = any(handle.attach_type is AttachType.PCI for handle in lent)
        return [_give_back(device)] if device in taken and not whole else []
    if wish.is_pci:
        units.find(root, PciAddress.parse(device), wish.hardware)
    if wish.mode is Mode.PASSTHROUGH:
        return _to_passthrough(root, device, lent)
    # Without a type of its own the intent means that of the configuration, and that takes effect when the old units are back (spec S1.4).
    still = next((type_id for one in lent if (type_id := one.attach_info.get("asked_type"))), configured)
    return _to_mdev(root, device, _type_of(wish, still), device in taken, lent)


def plans(root: Root, device: DeviceReport, taken: Mapping[str, Iterable[Original]]) -> dict[str, PlanReport]:
    """What would be done to bring a device to each mode it could be in. Who holds it is not looked at."""
    possible = [mode for mode in MODES if mode in (*device.capabilities, device.mode)]
    if not is_pci(device.address):
        return {mode: PlanReport() for mode in possible}
    try:
        unit = units.find(root, PciAddress.parse(device.address))
    except CantleError as error:
        return {mode: PlanReport.refused(error) for mode in possible}
    known = taken.get(device.address, ())
    found: dict[str, PlanReport] = {}
    for mode in possible:
        try:
            found[mode] = PlanReport.of(_shown(root, device, unit, mode, known))
        except CantleError as error:
            found[mode] = PlanReport.refused(error)
    return found


def _to_passthrough(root: Root, device: str, lent: Sequence[WantedHandle]) -> list[Step]:
    _refuse_lent(device, [one for one in lent if one.attach_type is not AttachType.PCI])
    if vfio.is_bound(root, units.find(root, PciAddress.parse(device))):
        return []
    return [Step(LEND_WHOLE, device, {}, True, True, f"give {device} to {vfio.VFIO_PCI}")]


def _to_mdev(root: Root, device: str, type_id: str, taken: bool, lent: Sequence[WantedHandle]) -> list[Step]:
    _refuse_lent(device, [one for one in lent if one.attach_info.get("asked_type") != type_id])
    if is_pci(device) and (taken or _is_on_vfio(root, device)):
        return [_give_back(device), _await(device, type_id, SETTLE)]
    offered = {one.type_id: one for one in mdev.types(root, device)}
    if type_id not in offered:
        raise type_missing(device, type_id, list(offered))
    others = [one for one in mdev.devices(root) if one.parent == device and one.type_id != type_id]
    ours = {handle.uuid for handle in lent}
    if others and not ours and offered[type_id].available_instances < 1:
        named = ", ".join(f"{one.uuid} ({one.type_id})" for one in others)
        raise Conflict(
            "mdevs-exist",
            f"{type_id} cannot be made on {device} while other mediated devices take it up: {named}; remove them, or ask their maker to",
            uuids=[one.uuid for one in others],
        )
    return []


def _type_of(wish: Intent, configured: str | None) -> str:
    elsewhere = sorted(set(wish.types) - {wish.device})
    if elsewhere:
        raise Conflict(
            "mode-not-possible",
            f"this version makes mediated devices on {wish.device} itself, not on {', '.join(elsewhere)}; name no other parent",
        )
    type_id = wish.types.get(wish.device, configured)
    if type_id is None:
        raise Conflict(
            "mdev-type-not-chosen",
            f"{wish.device} shall be cut, but neither the intent nor the configuration of this host says into which "
            f"type; name one of those in 'cantle device show {wish.device}': cantle device set-mode {wish.device} mdev --type TYPE",
        )
    return type_id


def _refuse_lent(device: str, others: Sequence[WantedHandle]) -> None:
    if others:
        uuids = ", ".join(handle.uuid for handle in others)
        raise Conflict(
            "device-in-use", f"{device} is lent otherwise than it is wanted now ({uuids}); release that first"
        )


def _shown(root: Root, device: DeviceReport, unit: Unit, mode: Mode, known: Iterable[Original]) -> Plan:
    address = device.address
    if mode is Mode.PASSTHROUGH:
        return vfio.plan_bind(root, unit, load_module=True, look_for_holders=False)
    on_vfio = unit.card.driver == vfio.VFIO_PCI
    back = vfio.plan_release(root, unit, known, look_for_holders=False) if on_vfio else Plan()
    if device.mode is Mode.MDEV:
        return back
    sentence = f"offer {address} in mediated devices, each made when it is lent"
    return Plan((*back.steps, Step(AWAIT_TYPE, address, {}, True, False, sentence)), back.warnings)


def _is_on_vfio(root: Root, device: str) -> bool:
    unit = units.find(root, PciAddress.parse(device))
    return root.link_name(f"{pci.DEVICES}/{unit.card.address}/driver") == vfio.VFIO_PCI


def _give_back(device: str) -> Step:
    return Step(TAKE_BACK_WHOLE, device, {}, True, True, f"give {device} back to where it came from")


def _await(device: str, type_id: str, seconds: float) -> Step:
    args = {"type": type_id, "seconds": str(seconds)}
    return Step(AWAIT_TYPE, device, args, True, False, f"see {type_id} offered by {device}")
