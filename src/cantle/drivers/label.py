"""What configuration says of this host's cards, put into the report: labels, and the whitelist of PCI devices (spec S2.3, S4.2)."""

from __future__ import annotations

import msgspec

from cantle.drivers.driver import HostView
from cantle.errors import BadRequest
from cantle.kernel.vfio import VFIO_PCI
from cantle.model.attach_handle import AttachType
from cantle.model.device_spec import Candidate, DeviceSpec
from cantle.model.kind import class_name, trait_name
from cantle.model.pci import PciAddress, PciFunction
from cantle.model.request import words
from cantle.wire.inventory import DeployableReport, DeviceReport

#: For a device that is no PCI function: no pattern of an address but "any" matches it, and none should.
_NOWHERE = PciAddress(0, 0, 0, 0)

#: Under this name a report has the network interfaces by which the whitelist names a card, in ``vendor_board_info``, with blanks between.
INTERFACES = "interfaces"

WITHHELD = "no [pci] device_spec matches it, so it is not given to guests"
#: Nova keeps such a device reserved after its first guest until a person has looked; Cantle would clean it and lend it again.
ONE_TIME = (
    "its [pci] device_spec says one_time_use, which only Nova's own PCI devices can keep: Cantle does not lend it"
)


def labelled(host: HostView, device: DeviceReport) -> DeviceReport:
    """A device's report with its labels; configuration goes before what its driver says. One that is given to guests as it is, and that a
    whitelist does not name, or that it names for one use only, offers nothing.
    """
    labelling = host.enabled.labelling
    function = next((one for one in host.functions if str(one.address) == device.address), None)
    candidate = _candidate(host, device, function)
    if candidate.devnames:
        told = {**device.vendor_board_info, INTERFACES: " ".join(candidate.devnames)}
        device = msgspec.structs.replace(device, vendor_board_info=told)
    labels = device.labels | labelling.of(host.hostname, device.model, candidate)
    whole = any(handle.attach_type is AttachType.PCI for one in device.deployables for handle in one.handles)
    if labelling.whitelist.specs and whole:
        spec = labelling.whitelist.of(candidate)
        withheld = WITHHELD if spec is None else ONE_TIME if spec.tags.get("one_time_use") == "true" else None
        if spec is None or withheld is not None:
            reason = "; ".join(filter(None, (device.reason, withheld)))
            return msgspec.structs.replace(device, labels=labels, deployables=(), reason=reason)
        labels |= spec.pool_tags
        device = msgspec.structs.replace(device, deployables=tuple(_tagged(spec, one) for one in device.deployables))
    return msgspec.structs.replace(device, labels=labels)


def _candidate(host: HostView, device: DeviceReport, function: PciFunction | None) -> Candidate:
    try:
        address = PciAddress.parse(device.address)
    except BadRequest:
        return Candidate(device.vendor_id, device.product_id, _NOWHERE)
    parent = function.physfn if function is not None else None
    names = dict.fromkeys(name for name, owner in host.interfaces.items() if owner in (str(address), str(parent)))
    if function is not None and function.driver == VFIO_PCI:  # its interface is gone: what it was called is remembered
        known = host.known_of(device.address, f"{function.vendor_id}:{function.device_id}").interfaces
        names |= dict.fromkeys(name for name in known if name not in host.interfaces)
    return Candidate(device.vendor_id, device.product_id, address, parent, tuple(names))


def _tagged(spec: DeviceSpec, one: DeployableReport) -> DeployableReport:
    """A deployable with the resource class and the traits that its whitelist's entry gives it."""
    resource_class = class_name(spec.tags["resource_class"]) if "resource_class" in spec.tags else one.resource_class
    more = [trait_name(word) for word in words(spec.tags.get("traits", ""))]
    traits = tuple(dict.fromkeys([*one.traits, *more]))
    return msgspec.structs.replace(one, resource_class=resource_class, traits=traits)
