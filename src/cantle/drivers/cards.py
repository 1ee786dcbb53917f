"""What drivers say of PCI functions in the same words: identity, board information, whether a card can be lent whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cantle.drivers.driver import HostView
from cantle.drivers.slices import deployable_report
from cantle.errors import CantleError
from cantle.kernel import node, serial
from cantle.kernel import unit as units
from cantle.model import classify, isolation
from cantle.model.attach_handle import AttachType
from cantle.model.device import Health, Mode
from cantle.model.isolation import Isolation
from cantle.model.kind import CONTAINERS, GUESTS_LABEL
from cantle.model.naming import device_traits
from cantle.model.pci import ACCELERATOR, DISPLAY_3D, DISPLAY_OTHER, VGA, PciFunction
from cantle.model.verdict import judge
from cantle.wire.inventory import DeployableReport, DeviceReport, HandleReport

#: What lspci calls the classes: Cyborg's ``controller``.
_CONTROLLERS: Mapping[str, str] = {
    VGA: "VGA compatible controller",
    DISPLAY_3D: "3D controller",
    DISPLAY_OTHER: "Display controller",
    ACCELERATOR: "Processing accelerators",
}


def place(function: PciFunction) -> dict[str, str]:
    """A function's part of ``attach_info`` (contract section 4.1): hex digits without 0x."""
    address = function.address
    return {
        "domain": f"{address.domain:04x}",
        "bus": f"{address.bus:02x}",
        "device": f"{address.slot:02x}",
        "function": f"{address.function:x}",
    }


def report(
    host: HostView,
    function: PciFunction,
    mode: Mode,
    *,
    health: Health = Health.OK,
    reason: str | None = None,
    capabilities: Sequence[str] = (),
    deployables: tuple[DeployableReport, ...] = (),
    mdev_types: Mapping[str, Mapping[str, str]] | None = None,
) -> DeviceReport:
    """A card with everything that is the same whatever it is used for."""
    name = host.names.name(function) if host.names is not None else None
    return DeviceReport(
        address=str(function.address),
        type=classify.device_type(function),
        vendor=function.vendor_id,
        model=name or f"{classify.vendor_word(function.vendor_id)} Device {function.device_id}",
        vendor_id=function.vendor_id,
        product_id=function.device_id,
        mode=mode,
        health=health,
        reason=reason,
        numa_node=function.numa_node,
        capabilities=tuple(str(one) for one in capabilities),
        std_board_info={
            "product_id": function.device_id,
            "controller": _CONTROLLERS.get(function.class_code, function.class_id),
        },
        vendor_board_info={
            "subsystem_vendor": function.subsystem_vendor,
            "subsystem_device": function.subsystem_device,
            "revision": function.revision,
            **serial.own(host.root, function.address),
        },
        deployables=deployables,
        mdev_types={parent: dict(offered) for parent, offered in (mdev_types or {}).items()},
    )


def hardware(function: PciFunction) -> str:
    """Vendor and device id as intents and memories name a card: ``10de:1eb8``."""
    return f"{function.vendor_id}:{function.device_id}"


def degraded(device: DeviceReport, reason: str) -> DeviceReport:
    """The same card with a reason why it is not what it should be."""
    return msgspec.structs.replace(device, health=Health.DEGRADED, reason=reason)


def whole(
    host: HostView,
    function: PciFunction,
    resource_class: str,
    capabilities: Sequence[str] = (),
    mdev_types: Mapping[str, Mapping[str, str]] | None = None,
) -> DeviceReport:
    """A card to lend whole, or the reason why it cannot be: then it has no units."""
    address = str(function.address)
    if classify.is_too_wide(function):
        reason = f"its PCI domain {function.address.domain:x} does not fit the 16 bits that guests' configurations have for it"
        return report(
            host, function, Mode.UNASSIGNABLE, reason=reason, capabilities=capabilities, mdev_types=mdev_types
        )
    objections = units.objections(host.root, units.find(host.root, function.address))
    lent = {handle.attach_type for handle in host.lent(address)}
    if lent == {AttachType.NODES} or (_only_of_guests(objections) and not lent and not function.dead):
        why = objections[0].message if objections else "it is lent to a container"
        found = _for_containers(host, function, resource_class, why)
        types = {parent: dict(offered) for parent, offered in (mdev_types or {}).items()}
        return msgspec.structs.replace(found, capabilities=tuple(map(str, capabilities)), mdev_types=types)
    if objections or function.dead:
        dead = function.dead or any(objection.code == "device-dead" for objection in objections)
        carved = any(objection.code == "vfs-enabled" for objection in objections)
        told = [objection.message for objection in objections] or [judge(function, None).reason]
        return report(
            host,
            function,
            Mode.SRIOV if carved else Mode.UNASSIGNABLE,
            health=Health.FAILED if dead else Health.OK,
            reason="; ".join(told),
            capabilities=capabilities,
            mdev_types=mdev_types,
        )
    user = host.held.get(address)
    handles = () if user else (HandleReport(address, AttachType.PCI, place(function)),)
    deployable = deployable_report(
        host,
        address,
        driver_name=classify.vendor_word(function.vendor_id),
        resource_class=resource_class,
        traits=device_traits(function.vendor_id, function.device_id),
        handles=handles,
    )
    found = report(
        host,
        function,
        Mode.PASSTHROUGH,
        health=Health.DEGRADED if user else Health.OK,
        reason=f"somebody uses it, and it is not lent by Cantle: {user}" if user else None,
        capabilities=capabilities,
        deployables=(deployable,),  # with nothing to lend while somebody has it: what it is is known all the same
        mdev_types=mdev_types,
    )
    return msgspec.structs.replace(found, labels={isolation.LABEL: Isolation.HARDWARE})


def _only_of_guests(objections: Sequence[CantleError]) -> bool:
    """Whether all that stands against a card stands against virtual machines alone."""
    return bool(objections) and all(one.code in ("iommu-off", "vfio-pci-missing") for one in objections)


def _for_containers(host: HostView, function: PciFunction, resource_class: str, why: str) -> DeviceReport:
    """A card that no virtual machine can be given, and a container can: it uses it through its driver, which needs no IOMMU."""
    address = str(function.address)
    try:
        node.of_card(host.root, function.address)
    except CantleError as error:
        return report(host, function, Mode.UNASSIGNABLE, reason=f"{why}; nor to a container: {error.message}")
    deployable = deployable_report(
        host,
        address,
        driver_name=classify.vendor_word(function.vendor_id),
        resource_class=resource_class,
        traits=device_traits(function.vendor_id, function.device_id),
        handles=(HandleReport(address, AttachType.NODES, place(function)),),
    )
    reason = f"for containers alone: {why}"
    found = report(host, function, Mode.PASSTHROUGH, reason=reason, deployables=(deployable,))
    return msgspec.structs.replace(found, labels={GUESTS_LABEL: CONTAINERS, isolation.LABEL: Isolation.HARDWARE})
