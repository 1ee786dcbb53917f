"""What configuration says of this host's cards, put into the report: labels, and the whitelist of PCI devices (spec S2.3, S4.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cantle.errors import BadRequest
from cantle.model.attach_handle import AttachType
from cantle.model.device_spec import Candidate, DeviceSpec
from cantle.model.kind import class_name, trait_name
from cantle.model.label import Labelling
from cantle.model.pci import PciAddress, PciFunction
from cantle.model.request import words
from cantle.wire.inventory import DeployableReport, DeviceReport

#: For a device that is no PCI function: no pattern of an address but "any" matches it, and none should.
_NOWHERE = PciAddress(0, 0, 0, 0)

WITHHELD = "no [pci] device_spec matches it, so it is not given to guests"


def labelled(
    labelling: Labelling, hostname: str, functions: Sequence[PciFunction], device: DeviceReport
) -> DeviceReport:
    """A device's report with its labels; configuration goes before what its driver says. One that is given to guests as it is, and that a
    whitelist does not name, offers nothing.

    :param functions: the host's PCI functions, for the physical function of a virtual one.
    """
    candidate = _candidate(device, {str(one.address): one for one in functions})
    labels = device.labels | labelling.of(hostname, device.model, candidate)
    whole = any(handle.attach_type is AttachType.PCI for one in device.deployables for handle in one.handles)
    if labelling.whitelist.specs and whole:
        spec = labelling.whitelist.of(candidate)
        if spec is None:
            reason = f"{device.reason}; {WITHHELD}" if device.reason else WITHHELD
            return msgspec.structs.replace(device, labels=labels, deployables=(), reason=reason)
        labels |= spec.pool_tags
        device = msgspec.structs.replace(device, deployables=tuple(_tagged(spec, one) for one in device.deployables))
    return msgspec.structs.replace(device, labels=labels)


def _candidate(device: DeviceReport, functions: Mapping[str, PciFunction]) -> Candidate:
    try:
        address = PciAddress.parse(device.address)
    except BadRequest:
        return Candidate(device.vendor_id, device.product_id, _NOWHERE)
    function = functions.get(device.address)
    return Candidate(device.vendor_id, device.product_id, address, function.physfn if function is not None else None)


def _tagged(spec: DeviceSpec, one: DeployableReport) -> DeployableReport:
    """A deployable with the resource class and the traits that its whitelist's entry gives it."""
    resource_class = class_name(spec.tags["resource_class"]) if "resource_class" in spec.tags else one.resource_class
    more = [trait_name(word) for word in words(spec.tags.get("traits", ""))]
    traits = tuple(dict.fromkeys([*one.traits, *more]))
    return msgspec.structs.replace(one, resource_class=resource_class, traits=traits)
