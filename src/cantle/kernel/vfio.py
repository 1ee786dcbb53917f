"""Handing a whole unit to vfio-pci, the driver that lends PCI functions to guests, and back (spec S4.8; Documentation/driver-api/vfio.rst).

The drivers that the functions came from are in no file once vfio-pci has them. :func:`originals` returns them as data, to be stored
before anything is changed; when they are lost, the kernel chooses by the functions' ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cantle.errors import HostError
from cantle.kernel import binding, holders, modules, pci
from cantle.kernel import unit as units
from cantle.kernel.root import Root
from cantle.kernel.undo import Executors, Undo, run_steps
from cantle.kernel.unit import Unit
from cantle.model.pci import PciAddress, PciFunction
from cantle.model.step import Plan, Step

VFIO_PCI = "vfio-pci"


@dataclass(frozen=True, slots=True)
class Original:
    """How the host had one function before we took it. JSON-able.

    :param hardware: vendor and device id; what is known of another card at this address does not count.
    :param driver: "" when it was on none; None when it is not known: vfio-pci had it when we first saw it.
    :param override: its ``driver_override``, "" for none.
    """

    address: str
    hardware: str
    driver: str | None
    override: str = ""


def originals(root: Root, unit: Unit, known: Iterable[Original] = ()) -> tuple[Original, ...]:
    """What to give each function back to, one entry each: as it is now if untouched, else what was known, else unknown.

    Store it before :func:`apply` of a bind, and forget it only after that of a release: half-done states are understood by it.
    """
    earlier = _by_function(known)
    return tuple(_original(root, function, earlier) for function in unit.functions)


def plan_bind(root: Root, unit: Unit, *, load_module: bool = False, look_for_holders: bool = True) -> Plan:
    """Steps that put every function of the unit on vfio-pci, the companions first. Changes nothing.

    Starts from any half-done state. Functions that vfio-pci has already are left alone, however they came there.

    :param load_module: plan to load vfio-pci if the kernel lacks it.
    :param look_for_holders: False for a plan that is only shown: who has a node open changes from moment to moment.
    :raises Conflict: those of :func:`cantle.kernel.unit.check`, ``device-held``, ``holders-unknown``, ``driver-not-loaded``.
    """
    steps: list[Step] = []
    for function in reversed(unit.functions):
        steps += _steps_to_vfio(root, function)
    if not steps:
        return Plan()
    units.check(root, unit)
    if look_for_holders:
        _check_nobody_uses(root, steps)
    if not modules.driver_present(root, VFIO_PCI):
        if not load_module:
            raise binding.not_loaded(VFIO_PCI, f"{unit.card.address} cannot be lent whole")
        steps.insert(0, _load_step(VFIO_PCI))
    return Plan(tuple(steps), _warnings(root, unit))


def plan_release(root: Root, unit: Unit, known: Iterable[Original] = (), *, look_for_holders: bool = True) -> Plan:
    """Steps that give every function back to where it came from, the card first. Changes nothing.

    A function of unknown origin goes to the driver the kernel chooses. Functions on other drivers than vfio-pci are left alone.

    :raises Conflict: ``vfs-enabled``, ``device-held``, ``holders-unknown``, ``driver-not-loaded``.
    """
    earlier = _by_function(known)
    steps: list[Step] = []
    warnings: list[str] = []
    for function in unit.functions:
        original = _original(root, function, earlier)
        back = _steps_back(root, function, original)
        steps += back
        if back and original.driver is None:
            warnings.append(f"the driver that {function.address} came from is not known: the kernel chooses by its ids")
    if not steps:
        return Plan()
    for objection in units.virtual_functions(root, unit):
        raise objection
    if look_for_holders:
        _check_nobody_uses(root, steps)
    for step in steps:
        wanted = step.args.get("driver", "")
        if step.name == "bind-driver" and not modules.driver_present(root, wanted):
            raise binding.not_loaded(wanted, f"{step.target} cannot be given back to it")
    return Plan(tuple(steps), tuple(warnings))


def apply(root: Root, plan: Plan, undo: Undo | None = None, executors: Executors | None = None) -> list[str]:
    """Run a plan of this module, all or nothing; the notes a person should read.

    :param undo: the stack of a larger change that this is a part of.
    :param executors: replaces :data:`EXECUTORS`.
    :raises CantleError: those of :mod:`cantle.kernel.binding`, :func:`cantle.kernel.modules.load` and
        :func:`cantle.kernel.undo.run_steps`; the start state is back, or the error is ``undo-incomplete``.
    """
    return run_steps(root, plan.steps, executors or EXECUTORS, undo)


def check_free(root: Root, unit: Unit) -> None:
    """Refuse while somebody has a node of the unit open.

    :raises Conflict: ``device-held``, ``holders-unknown``.
    """
    holders.check_free(root, [function.address for function in unit.functions])


def is_bound(root: Root, unit: Unit) -> bool:
    """Whether vfio-pci has every function of the unit now."""
    return all(binding.driver(root, function.address) == VFIO_PCI for function in unit.functions)


def _steps_to_vfio(root: Root, function: PciFunction) -> list[Step]:
    address = function.address
    now = binding.driver(root, address)
    if now == VFIO_PCI:
        return []
    steps = []
    if binding.override(root, address) != VFIO_PCI:
        steps.append(_override_step(address, VFIO_PCI))
    if now is not None:
        steps.append(_unbind_step(address, now))
    return [*steps, _bind_step(address, VFIO_PCI)]


def _steps_back(root: Root, function: PciFunction, original: Original) -> list[Step]:
    address = function.address
    now = binding.driver(root, address)
    allowed = binding.override(root, address)
    on_host_driver = now not in (None, VFIO_PCI)
    if on_host_driver and not _touched(now, allowed, original):
        return []
    steps = []
    if allowed != original.override:
        steps.append(_override_step(address, original.override))
    if on_host_driver:
        return steps
    if now == VFIO_PCI:
        steps.append(_unbind_step(address, VFIO_PCI))
    if original.driver is None:
        steps.append(_probe_step(address))
    elif original.driver:
        steps.append(_bind_step(address, original.driver))
    return steps


def _by_function(known: Iterable[Original]) -> dict[tuple[str, str], Original]:
    return {(original.address, original.hardware): original for original in known}


def _original(root: Root, function: PciFunction, earlier: Mapping[tuple[str, str], Original]) -> Original:
    address = str(function.address)
    hardware = f"{function.vendor_id}:{function.device_id}"
    now = binding.driver(root, function.address)
    allowed = binding.override(root, function.address)
    stored = earlier.get((address, hardware))
    if not _touched(now, allowed, stored) and (now is not None or stored is None):
        return Original(address, hardware, now or "", allowed)
    if stored is not None:
        return stored
    # With the override set but another driver still on it, we were stopped before the unbind: the driver is the original one.
    return Original(address, hardware, now if now != VFIO_PCI else None)


def _touched(now: str | None, allowed: str, original: Original | None) -> bool:
    """Whether we changed a function: vfio-pci shows in it, or the override that a way back sets for a moment (it was cut off)."""
    left_behind = original is not None and allowed not in ("", original.override) and allowed == original.driver
    return VFIO_PCI in (now, allowed) or left_behind


def _check_nobody_uses(root: Root, steps: Iterable[Step]) -> None:
    holders.check_free(root, [PciAddress.parse(step.target) for step in steps if step.disruptive])


def _warnings(root: Root, unit: Unit) -> tuple[str, ...]:
    files = ((one.address, f"{pci.DEVICES}/{one.address}/boot_vga") for one in unit.functions)
    return tuple(
        f"the host's console is on {address}: its picture stops, use the network or a serial console"
        for address, rel in files
        if root.read_or_none(rel) == "1"
    )


def _override_step(address: PciAddress, driver: str) -> Step:
    only = f"keep {address} for {driver} alone" if driver else f"let any driver take {address} again"
    return Step("set-override", str(address), {"driver": driver}, True, False, f"{only} (driver_override)")


def _unbind_step(address: PciAddress, driver: str) -> Step:
    return Step(
        "unbind-driver", str(address), {"driver": driver}, True, True, f"take {address} from the driver {driver}"
    )


def _bind_step(address: PciAddress, driver: str) -> Step:
    return Step("bind-driver", str(address), {"driver": driver}, True, False, f"give {address} to the driver {driver}")


def _probe_step(address: PciAddress) -> Step:
    return Step("probe-drivers", str(address), {}, True, False, f"let the kernel choose a driver for {address}")


def _load_step(module: str) -> Step:
    return Step("load-module", module, {}, False, False, f"load the module {module}")


def _run_override(root: Root, step: Step, undo: Undo) -> None:
    binding.set_override(root, PciAddress.parse(step.target), step.args["driver"], undo)


def _run_unbind(root: Root, step: Step, undo: Undo) -> None:
    binding.unbind(root, PciAddress.parse(step.target), step.args["driver"], undo)


def _run_bind(root: Root, step: Step, undo: Undo) -> None:
    binding.bind(root, PciAddress.parse(step.target), step.args["driver"], undo)


def _run_probe(root: Root, step: Step, undo: Undo) -> str | None:
    taken = binding.probe(root, PciAddress.parse(step.target), undo)
    if taken == VFIO_PCI:
        raise HostError(
            "driver-bind-refused",
            f"vfio-pci took {step.target} again: its ids are preset for it; remove them from vfio-pci.ids on the kernel"
            " command line and from /etc/modprobe.d/, or say which driver it belongs to",
            address=step.target,
        )
    return None if taken else f"no driver that is loaded wants {step.target}; it is on none now"


def _run_load(root: Root, step: Step, _undo: Undo) -> None:
    modules.load(root, step.target)


#: The code of this module's steps; loading a module is the one that has no way back.
EXECUTORS: Executors = {
    "set-override": _run_override,
    "unbind-driver": _run_unbind,
    "bind-driver": _run_bind,
    "probe-drivers": _run_probe,
    "load-module": _run_load,
}
