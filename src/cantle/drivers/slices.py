"""Mediated devices as units to lend: how many there are, what each is called, and when they are withheld.

Shared by all drivers whose hardware is cut by the kernel's mdev framework (spec S0.2 to S0.6, S1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cantle.drivers.driver import HostView, Known
from cantle.kernel import mdev as kernel_mdev
from cantle.kernel.mdev import MdevDevice, MdevType
from cantle.model.attach_handle import AttachType
from cantle.model.device import Health, Mode
from cantle.model.enabled_types import EnabledType
from cantle.model.intent import is_pci
from cantle.model.naming import mdev_traits, mdev_type_facts
from cantle.wire.inventory import DeployableReport, HandleReport
from cantle.wire.work import WantedHandle

#: Uuids named in a reason; more are counted.
_NAMED = 4


@dataclass(frozen=True, slots=True)
class Parent:
    """A parent and what is known of it at one moment.

    :param place: its part of ``attach_info``: domain, bus, device and function, or ``parent``.
    :param chosen: the type it lends.
    :param refused: why that is not the configured one, if so.
    :param left: units of before that are not to be lent now: see :class:`cantle.drivers.driver.HostView`.
    :param adopted: uuids of free mediated devices of the chosen type that somebody else made and that are lent as they are (spec S1.3).
    """

    address: str
    vendor_id: str
    product_id: str
    driver_name: str
    place: Mapping[str, str]
    chosen: EnabledType
    offered: Mapping[str, MdevType]
    mdevs: Sequence[MdevDevice]
    lent: Sequence[WantedHandle]
    refused: str | None = None
    adopted: Sequence[str] = ()
    left: Sequence[WantedHandle] = ()

    @property
    def offer(self) -> MdevType | None:
        """What the parent's driver says of the chosen type."""
        return self.offered.get(self.chosen.type_id)

    @property
    def used(self) -> int:
        """Units of the chosen type that exist and are ours."""
        ours = {handle.uuid for handle in self.lent}
        return sum(1 for one in self.mdevs if one.uuid in ours and one.type_id == self.chosen.type_id)


@dataclass(frozen=True, slots=True)
class Slices:
    """What a parent has to lend, and how well."""

    deployables: tuple[DeployableReport, ...] = ()
    health: Health = Health.OK
    reason: str | None = None


def types_of(parent: str, offered: Mapping[str, MdevType]) -> dict[str, dict[str, str]]:
    """What a parent offers, as a report has it; nothing for one that offers nothing."""
    names = {type_id: one.name or "" for type_id, one in offered.items()}
    return {parent: names} if names else {}


def wished(host: HostView, address: str, configured: EnabledType | None) -> EnabledType | None:
    """The type to cut a device into, None to lend it whole: what an operator wants of this device, else what is configured for it."""
    wish = host.wishes.get(address)
    if wish is None:
        return configured
    if wish.mode is not Mode.MDEV:
        return None
    type_id = wish.types.get(address)
    return configured if type_id is None else host.enabled.of_type(type_id)


def choose(
    host: HostView, address: str, wanted: EnabledType | None, known: Known | None = None
) -> tuple[EnabledType | None, str | None]:
    """The type a parent lends: the wanted one, unless another is still lent there, or the same as another class (spec S1.4). With the
    second, the reason is given."""
    for handle in host.lent(address):
        lent = handle.attach_info.get("asked_type")
        if handle.attach_type is not AttachType.MDEV or not lent:
            continue
        before = known.resource_class if known is not None and known.resource_class else ""
        kept = _as_before(host, lent, before)
        if wanted is None or lent != wanted.type_id:
            wish = f"configured is {wanted.type_id}" if wanted is not None else "no type is configured any more"
        elif kept.resource_class != wanted.resource_class:
            wish = f"it is inventoried as {kept.resource_class}, and configured is {wanted.resource_class}"
        else:
            continue
        units = ", ".join(one.uuid for one in host.lent(address) if one.attach_info.get("asked_type") == lent)
        return kept, (
            f"config-refused: {lent} is still lent ({units}); {wish}, which takes effect when nothing of it is lent any more. "
            f"It is lent as before until then: {way_out(host, address, 'lends no more of it')}"
        )
    return wanted, None


def way_out(host: HostView, address: str, effect: str) -> str:
    """How an operator brings a card to its end that is lent without a pause, so that what is configured never takes effect."""
    return f"'cantle device disable {host.hostname}/{address}' {effect}, 'cantle device enable' lends again"


def _as_before(host: HostView, type_id: str, resource_class: str) -> EnabledType:
    """A type that is lent, as it was inventoried when that was done."""
    known = host.enabled.of_type(type_id)
    return replace(known, resource_class=resource_class) if resource_class else known


def adoptable(host: HostView, address: str, chosen: EnabledType) -> tuple[str, ...]:
    """Mediated devices of a type that somebody made on a parent and nobody holds, where the configuration says to lend them (spec S1.3).
    Of one whose holders cannot be found out, somebody holds it."""
    if not host.enabled.adopt:
        return ()
    return tuple(
        one.uuid
        for one in host.mdevs
        if one.parent == address
        and one.type_id == chosen.type_id
        and one.uuid not in host.ours
        and kernel_mdev.is_free(host.root, one.uuid)
    )


def slices(host: HostView, parents: Sequence[Parent]) -> dict[str, Slices]:
    """The units of all parents of one driver, by address. They are looked at together since ``max_instances`` counts the whole host."""
    room = _room(host, parents)
    return {parent.address: _of(host, parent, room.get(parent.address, 0)) for parent in parents}


def _room(host: HostView, parents: Iterable[Parent]) -> dict[str, int]:
    """How many units each parent has: what exists and is ours, and what can still be made, trimmed exactly to ``max_instances`` in the
    order of addresses. What is in use is never trimmed."""
    left: dict[str, int] = {}
    room: dict[str, int] = {}
    for parent in sorted(parents, key=lambda one: one.address):
        if parent.offer is None:
            continue
        type_id, limit = parent.chosen.type_id, parent.chosen.max_instances
        more = parent.offer.available_instances
        if limit is not None:
            existing = sum(1 for one in host.mdevs if one.type_id == type_id)
            more = min(more, left.setdefault(type_id, max(0, limit - existing)))
            left[type_id] -= more
        room[parent.address] = parent.used + len(parent.adopted) + more
    return room


def _of(host: HostView, parent: Parent, total: int) -> Slices:
    offer = parent.offer
    if offer is None:
        return Slices((), Health.DEGRADED, _not_offered(parent))
    names = {type_id: one.name for type_id, one in parent.offered.items()}
    traits = mdev_traits(parent.vendor_id, parent.product_id, offer.type_id, names)
    if host.enabled.type_facts:
        traits += mdev_type_facts(offer.name)
    deployable = deployable_report(
        host,
        parent.address,
        driver_name=parent.driver_name,
        resource_class=parent.chosen.resource_class,
        traits=traits,
        handles=_handles(parent, total),
    )
    if parent.refused is not None:
        return Slices((deployable,), Health.DEGRADED, parent.refused)
    if total == 0:
        return Slices((deployable,), Health.DEGRADED, f"{offer.type_id} offers 0: {_blockers(parent)}")
    return Slices((deployable,))


def _handles(parent: Parent, total: int) -> tuple[HandleReport, ...]:
    """One handle per unit. Units that are lent keep their names whatever their number, so none of them can fall off the end."""
    type_id = parent.chosen.type_id
    lent = {handle.attach_info.get("vgpu_mark", ""): handle.uuid for handle in parent.lent}
    existing = {one.uuid for one in parent.mdevs}
    kept = sorted(
        (mark for mark in lent if mark.startswith(f"{type_id}_")),
        key=lambda one: (lent[one] not in existing, _number(one)),
    )
    marks = kept[:total]
    adopted = {f"{type_id}_{uuid}": uuid for uuid in parent.adopted}
    marks += [mark for mark in adopted if mark not in lent]
    taken = {*lent, *(handle.attach_info.get("vgpu_mark", "") for handle in parent.left)}
    number = 0
    while len(marks) < total:
        mark = f"{type_id}_{number}"
        if mark not in taken:
            marks.append(mark)
        number += 1
    return tuple(
        HandleReport(
            mark, AttachType.MDEV, {**parent.place, "asked_type": type_id, "vgpu_mark": mark}, adopted.get(mark)
        )
        for mark in sorted(marks, key=_number)
    )


def _number(mark: str) -> tuple[int, str]:
    digits = mark.rpartition("_")[2]
    return (int(digits) if digits.isdigit() else 0, mark)


def deployable_report(
    host: HostView,
    address: str,
    *,
    driver_name: str,
    resource_class: str,
    traits: tuple[str, ...],
    handles: tuple[HandleReport, ...],
) -> DeployableReport:
    """A deployable with its attributes in Cyborg's wording: ``rc``, ``trait0``… (spec S0.6)."""
    attributes = {"rc": resource_class} | {f"trait{number}": trait for number, trait in enumerate(traits)}
    return DeployableReport(f"{host.hostname}_{address}", driver_name, resource_class, traits, handles, attributes)


def _not_offered(parent: Parent) -> str:
    wanted = parent.chosen.type_id
    withheld = f"It is withheld until the type appears{or_whole(parent.address, wanted)}"
    if not parent.offered:
        why = "no mediated type is offered: its driver is not there or still starting"
        return f"{wanted} is enabled for it, but {why}. {withheld}"
    offered = ", ".join(f"{one.type_id} ({one.name})" if one.name else one.type_id for one in parent.offered.values())
    return f"{wanted} is enabled for it, but it offers only {offered}. {withheld}"


def or_whole(address: str, type_id: str) -> str:
    """What to do about a card that is not to be cut after all, such as one whose model has no vGPUs; nothing for what is no card."""
    if not is_pci(address):
        return ""
    return f"; to lend it whole: cantle device set-mode {address} passthrough, or name the cards of {type_id} by device_addresses"


def _blockers(parent: Parent) -> str:
    """What uses up a parent: its mediated devices by type, others' and ours."""
    if not parent.mdevs:
        return "nothing is made on it, so its driver keeps it for something else, or max_instances is reached on other cards"
    ours = {handle.uuid for handle in parent.lent}
    words = []
    for type_id in sorted({one.type_id for one in parent.mdevs}):
        uuids = [one.uuid for one in parent.mdevs if one.type_id == type_id]
        foreign = [uuid for uuid in uuids if uuid not in ours]
        named = ", ".join(uuids[:_NAMED]) + (f" and {len(uuids) - _NAMED} more" if len(uuids) > _NAMED else "")
        whose = "" if not foreign else f", {len(foreign)} of them not lent by Cantle"
        words.append(f"{len(uuids)} {type_id} exist on it{whose}: {named}")
    return "; ".join(words)
