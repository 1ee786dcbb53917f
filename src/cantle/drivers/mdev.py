"""Any other parent of mediated devices: Intel GVT-g, the kernel's samples (mtty), crypto and channel subsystems (spec S1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cantle.drivers import cards, slices
from cantle.drivers.driver import HostView, Known
from cantle.errors import CantleError
from cantle.kernel import mdev
from cantle.kernel.mdev import MdevType
from cantle.model import classify
from cantle.model.device import DeviceType, Health, Mode
from cantle.model.enabled_types import EnabledType
from cantle.model.naming import NO_PCI_VENDOR, driver_word
from cantle.model.pci import PciFunction
from cantle.wire.inventory import DeviceReport

#: Whose GPUs have drivers of their own.
_MAKERS = frozenset({classify.NVIDIA, classify.AMD, classify.INTEL})


class MdevDriver:
    """Each parent is one device. GPUs are left to their makers' drivers, and so are PCI functions that no type is wanted for."""

    name = "mdev"

    def discover(self, host: HostView) -> Sequence[DeviceReport]:
        """See :class:`cantle.drivers.driver.Driver`."""
        functions = {str(one.address): one for one in host.functions}
        found: list[DeviceReport] = []
        parents: list[slices.Parent] = []
        for name in _names(host, functions):
            function = functions.get(name)
            if function is not None and _is_a_makers_gpu(function):
                continue
            try:
                offered = {one.type_id: one for one in mdev.types(host.root, name)}
            except CantleError as error:
                found.append(_report(host, name, function, _unreadable(error), {}))
                continue
            wanted = slices.wished(host, name, _configured(host, name, offered))
            chosen, refused = slices.choose(host, name, wanted, _known(host, name, function))
            if chosen is not None:
                parents.append(_parent(host, name, function, chosen=chosen, offered=offered, refused=refused))
            elif function is None:
                found.append(_report(host, name, function, _not_enabled(offered), offered))
        cut = slices.slices(host, parents)
        for one in parents:
            found.append(_report(host, one.address, functions.get(one.address), cut[one.address], one.offered))
        return found


def _is_a_makers_gpu(function: PciFunction) -> bool:
    """Whether a function is, or is a part of, a card that its maker's driver speaks for."""
    part = classify.is_virtual_function(function) and classify.is_shown(function)
    return function.vendor_id in _MAKERS and (part or classify.is_gpu(function))


def _known(host: HostView, name: str, function: PciFunction | None) -> Known:
    return host.known_of(name, cards.hardware(function) if function is not None else "")


def _names(host: HostView, functions: dict[str, PciFunction]) -> list[str]:
    """Parents that are there, and PCI functions that ought to be parents: their driver may be late."""
    awaited = [address for one in host.enabled.types for address in one.addresses if address in functions]
    return sorted({*host.parents, *awaited})


def _configured(host: HostView, name: str, offered: dict[str, MdevType]) -> EnabledType | None:
    """The type enabled for a parent by one of its names, or by default if it is of the driver whose types it offers."""
    named = host.enabled.named(name, *mdev.other_names(host.root, name))
    default = host.enabled.default
    if named is not None or default is None:
        return named
    words = {driver_word(type_id) for type_id in offered}
    return default if driver_word(default.type_id) in words else None


def _unreadable(error: CantleError) -> slices.Slices:
    return slices.Slices((), Health.DEGRADED, f"{error.code}: {error.message}")


def _not_enabled(offered: dict[str, MdevType]) -> slices.Slices:
    ids = ", ".join(offered) or "none"
    reason = f"no type is enabled for it: name one of its types ({ids}) in [devices] enabled_mdev_types"
    return slices.Slices((), Health.OK, reason)


def _parent(
    host: HostView,
    name: str,
    function: PciFunction | None,
    *,
    chosen: EnabledType,
    offered: dict[str, MdevType],
    refused: str | None,
) -> slices.Parent:
    return slices.Parent(
        name,
        function.vendor_id if function is not None else "",
        function.device_id if function is not None else "",
        classify.vendor_word(function.vendor_id) if function is not None else NO_PCI_VENDOR,
        cards.place(function) if function is not None else {"parent": name},
        chosen,
        offered,
        [one for one in host.mdevs if one.parent == name],
        host.lent(name),
        refused,
        slices.adoptable(host, name, chosen),
        [handle for handle in host.left if handle.device == name],
    )


def _report(
    host: HostView,
    name: str,
    function: PciFunction | None,
    found: slices.Slices,
    offered: Mapping[str, MdevType],
) -> DeviceReport:
    """``offered`` is what the parent offers now; if that is nothing, what it was seen to offer before is told."""
    types = slices.types_of(name, offered) or _known(host, name, function).mdev_types
    if function is not None:
        return cards.report(
            host,
            function,
            Mode.MDEV,
            health=found.health,
            reason=found.reason,
            capabilities=(Mode.MDEV,),
            deployables=found.deployables,
            mdev_types=types,
        )
    return DeviceReport(
        address=name,
        type=DeviceType.MDEV,
        vendor=NO_PCI_VENDOR.lower(),
        model=name,
        vendor_id="",
        product_id="",
        mode=Mode.MDEV,
        health=found.health,
        reason=found.reason,
        capabilities=(Mode.MDEV,),
        std_board_info={"parent": name},
        deployables=found.deployables,
        mdev_types={parent: dict(offered) for parent, offered in types.items()},
    )
