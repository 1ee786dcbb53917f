"""An attach handle as libvirt takes it: a ``<hostdev>`` element (libvirt.org/formatdomain.html, "Host device assignment"; spec S4.8)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

from cantle.errors import BadRequest
from cantle.model import uuids
from cantle.model.attach_handle import AttachType

#: Parts of a PCI address in ``attach_info``, libvirt's name for each, and how many hex digits libvirt writes and takes.
_PARTS = (("domain", "domain", 4), ("bus", "bus", 2), ("device", "slot", 2), ("function", "function", 1))
_HEX = re.compile(r"[0-9a-fA-F]{1,8}")
_LARGEST = {"domain": 0xFFFF, "bus": 0xFF, "device": 0x1F, "function": 7}


def hostdev_xml(
    attach_type: str, attach_info: Mapping[str, str], attach_handle_uuid: str, *, prepared: bool = True
) -> str:
    """The element to put among a domain's devices, or to hand to ``virsh attach-device``.

    A mediated device is the one whose uuid is the handle's; it exists once its ARQ is Bound.

    :param prepared: the host's agent gives the function its driver and takes it away, as it does for every unit that is lent: then
        libvirt must not (``managed="no"``), or two would write into one device's ``driver_override``, and a unit of several functions
        be torn apart when its guest ends. False for a function that nobody prepares: libvirt does (``managed="yes"``).
    :raises BadRequest: ``attach-type-unknown`` for what no guest can take; ``attach-info-malformed``.
    """
    if attach_type == AttachType.PCI:
        managed = "no" if prepared else "yes"
        hostdev = ElementTree.Element("hostdev", mode="subsystem", type="pci", managed=managed)
        source = ElementTree.SubElement(hostdev, "source")
        ElementTree.SubElement(source, "address", _pci_address(attach_info))
    elif attach_type == AttachType.MDEV:
        uuid = uuids.canonical(attach_handle_uuid)
        if uuid is None:
            raise _malformed(f"the handle's uuid is {attach_handle_uuid!r}, which is none")
        hostdev = ElementTree.Element("hostdev", mode="subsystem", type="mdev", managed="no", model="vfio-pci")
        source = ElementTree.SubElement(hostdev, "source")
        ElementTree.SubElement(source, "address", uuid=uuid)
    else:
        raise BadRequest(
            "attach-type-unknown",
            f"a handle of type {attach_type!r} cannot be put into a guest; those of type PCI and MDEV can",
            attach_type=attach_type,
        )
    ElementTree.indent(hostdev)
    return ElementTree.tostring(hostdev, encoding="unicode")


def _pci_address(info: Mapping[str, str]) -> dict[str, str]:
    address = {}
    for part, name, digits in _PARTS:
        text = info.get(part, "")
        if not _HEX.fullmatch(text):
            raise _malformed(f"{part} is {text!r}, which is no hexadecimal number")
        number = int(text, 16)
        if number > _LARGEST[part]:
            raise _malformed(f"{part} is {text}, and the largest that libvirt takes is {_LARGEST[part]:x}")
        address[name] = f"0x{number:0{digits}x}"
    return address


def _malformed(why: str) -> BadRequest:
    return BadRequest("attach-info-malformed", f"this handle cannot be written for libvirt: {why}")
