"""Whether a function can be lent, in what way, and if not why not. Pure: the facts come in, a sentence comes out.

*Capabilities* say what a card could be made into, *mode* what lending it now would mean (:class:`~cantle.model.device.Mode`).
Without any configuration a card that could be cut but is not cut yet counts as whole, spec S0.2; it counts as cut as soon as
mediated devices, virtual functions or MIG instances exist on it. A virtual function is a part of its card: it has the card's mode, and
what can be lent is said, and counted, on the card's own row.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from cantle.model import classify
from cantle.model.device import DeviceType, Mode
from cantle.model.pci import PciAddress, PciFunction

#: Drivers that hold a function for a guest or for nobody, so nothing has to let go of it.
IDLE_DRIVERS = frozenset({"vfio-pci", "pci-stub"})


class Surroundings(NamedTuple):
    """What is around a function on its host. The defaults are those of a lone function behind an IOMMU.

    :param companions: functions of its slot that go along with it, such as a GPU's audio.
    :param card: the card whose companion it is; None if it is none.
    :param no_isolation: why neither it nor a companion could be kept apart from the host; "" when nothing stands against it.
    :param for_containers: a container could be given it all the same: the host has no IOMMU, and its driver has device nodes for it.
    :param is_console: firmware shows the host's console on it (``boot_vga``).
    :param parents: how many of its functions, virtual ones included, are parents of mediated devices.
    :param has_room: one more mediated device can be made on one of them.
    :param made: how many mediated devices of each type exist on them.
    :param vendor_vfio: how many of its virtual functions carry vGPU types by NVIDIA's VFIO framework.
    :param vfs_isolated: every virtual function is there and has an IOMMU group.
    :param mig_instances: GPU instances that exist, None when that is not known.
    :param unreadable: what could not be read, "" for nothing; the other facts then stand for nothing.
    """

    companions: tuple[PciAddress, ...] = ()
    card: PciAddress | None = None
    no_isolation: str = ""
    for_containers: bool = False
    is_console: bool = False
    parents: int = 0
    has_room: bool = False
    made: Mapping[str, int] = MappingProxyType({})
    vendor_vfio: int = 0
    vfs_isolated: bool = True
    mig_instances: int | None = None
    unreadable: str = ""


class Verdict(NamedTuple):
    """``mode`` is None where the word does not apply (no accelerator) or is not known; ``lendable`` None when it is not known."""

    capabilities: tuple[Mode, ...]
    mode: Mode | None
    lendable: bool | None
    reason: str


def judge(function: PciFunction, around: Surroundings | None) -> Verdict:
    """The verdict on a PCI function. ``around`` is None when nothing is known of it, as in a dump of ``lspci``."""
    never = _never(function)
    if never is not None:
        return never
    known = Surroundings() if around is None else around
    if not classify.is_shown(function) and not known.parents:
        return Verdict((), None, False, _bystander(function, known))
    if classify.is_virtual_function(function):
        return _part(function, known)
    capabilities = _capabilities(function, known)
    if around is None:
        return Verdict(
            capabilities,
            None,
            None,
            "unknown: a dump does not tell IOMMU, SR-IOV and mediated devices; scan the host itself",
        )
    if around.unreadable:
        return Verdict(capabilities, *_unreadable(around))
    return Verdict(capabilities, *_now(function, around))


def judge_virtual_parent(around: Surroundings) -> Verdict:
    """The verdict on a parent of mediated devices that is no PCI function, such as ``mtty``."""
    return Verdict((Mode.MDEV,), *(_unreadable(around) if around.unreadable else _cut(around)))


def _never(function: PciFunction) -> Verdict | None:
    """The verdict on what cannot be lent by any means, whatever is around it."""
    if not classify.is_shown(function):
        return None
    if classify.is_too_wide(function):
        reason = f"cannot: PCI domain {function.address.domain:x} does not fit the 16 bits that a guest's configuration has for it"
        return Verdict((), Mode.UNASSIGNABLE, False, reason)
    if function.dead:
        reason = (
            "cannot: it does not answer (its vendor id reads ffff); it hangs or fell off the bus, power-cycle the host"
        )
        return Verdict((), Mode.UNASSIGNABLE, False, reason)
    if classify.is_bmc_display(function):
        return Verdict((), Mode.DISPLAY_ONLY, False, "no: the screen of the management controller (BMC)")
    if classify.is_virtual_display(function):
        return Verdict((), Mode.DISPLAY_ONLY, False, "no: the emulated screen of a virtual machine")
    return None


def _bystander(function: PciFunction, around: Surroundings) -> str:
    if classify.is_fabric(function):
        return "no: NVSwitch, the fabric between the machine's GPUs"
    if around.card is not None:
        return f"goes with {around.card}"
    return "no accelerator"


def _part(function: PciFunction, around: Surroundings) -> Verdict:
    """A virtual function. Its capabilities are what vGPUs are configured by: the function that offers them."""
    reason = f"part of {function.physfn}, see there"
    if around.vendor_vfio:
        return Verdict((Mode.VENDOR_VFIO,), Mode.VENDOR_VFIO, False, reason)
    if around.parents:
        room = "room for mdevs" if around.has_room else f"full ({_made(around)})"
        return Verdict((Mode.MDEV,), Mode.MDEV, False, f"part of {function.physfn}, {room}")
    return Verdict((), Mode.SRIOV, False, reason)


def _capabilities(function: PciFunction, around: Surroundings) -> tuple[Mode, ...]:
    could_be = {
        Mode.PASSTHROUGH: classify.is_card(function),
        Mode.MDEV: around.parents > 0,
        Mode.VENDOR_VFIO: around.vendor_vfio > 0,
        Mode.SRIOV: bool(function.sriov_total),
        Mode.MIG: bool(around.mig_instances),
    }
    return tuple(mode for mode, possible in could_be.items() if possible)


def _now(function: PciFunction, around: Surroundings) -> tuple[Mode, bool, str]:
    """Mode, lendable and reason of a card or a parent that answers and could be lent in some way."""
    if around.made or not classify.is_card(function):
        return _cut(around)
    if function.sriov_enabled:
        return _in_virtual_functions(function, around)
    if around.mig_instances:
        words = f"can be lent in its MIG slices, to containers alone ({around.mig_instances} GPU instances)"
        return Mode.MIG, True, f"{words}; remove them to lend it whole"
    if around.no_isolation:
        return _not_isolated(around)
    return Mode.PASSTHROUGH, True, _whole(function, around)


def _not_isolated(around: Surroundings) -> tuple[Mode, bool, str]:
    if around.has_room:
        return Mode.MDEV, True, f"can be cut into mediated devices (not lent whole: {around.no_isolation})"
    if around.for_containers:
        return Mode.PASSTHROUGH, True, f"can be lent whole, to containers alone: {around.no_isolation}"
    return Mode.UNASSIGNABLE, False, f"cannot: {around.no_isolation}"


def _unreadable(around: Surroundings) -> tuple[Mode, bool, str]:
    return Mode.UNASSIGNABLE, False, f"cannot: not everything about it can be read ({around.unreadable})"


def _cut(around: Surroundings) -> tuple[Mode, bool, str]:
    if around.has_room and around.made:
        return Mode.MDEV, True, f"can be lent in mediated devices ({_made(around)}, room for more)"
    if around.has_room:
        return Mode.MDEV, True, "can be cut into mediated devices"
    if around.made:
        return Mode.MDEV, False, f"cannot now: full ({_made(around)})"
    return Mode.MDEV, False, "cannot now: its driver offers no mediated device"


def _in_virtual_functions(function: PciFunction, around: Surroundings) -> tuple[Mode, bool, str]:
    if around.parents:
        return _cut(around)
    count = f"{function.sriov_enabled} virtual function{'' if function.sriov_enabled == 1 else 's'}"
    if around.vendor_vfio:
        mode, words = Mode.VENDOR_VFIO, f"in vGPUs on its {count}"
    else:
        mode, words = Mode.SRIOV, f"in its {count}"
    if not around.vfs_isolated:
        return (
            mode,
            False,
            f"cannot be lent {words}: {around.no_isolation or 'not all of them are there and in an IOMMU group'}",
        )
    return mode, True, f"can be lent {words}"


def _whole(function: PciFunction, around: Surroundings) -> str:
    words = "can be lent whole"
    kind = classify.device_type(function)
    if kind is not DeviceType.GPU:
        words += f", as {'an FPGA' if kind is DeviceType.FPGA else 'an accelerator'}"
    if around.companions:
        words += f", with {', '.join(map(str, around.companions))}"
    if around.has_room:
        words += ", or cut into mediated devices"
    if function.driver is not None and function.driver not in IDLE_DRIVERS:
        words += f"; driver {function.driver} lets go of it first"
    if around.is_console:
        words += "; the host's console is on it"
    return words


def _made(around: Surroundings) -> str:
    return ", ".join(f"{count} {type_id}" for type_id, count in sorted(around.made.items())) + " made"
