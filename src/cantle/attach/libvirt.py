"""An attach handle as libvirt takes it: a ``<hostdev>`` element (libvirt.org/formatdomain.html, "Host device assignment"; spec S4.8)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from cantle.errors import BadRequest
from cantle.model import uuids
from cantle.model.attach_handle import AttachType
from cantle.model.pci import PciAddress

#: Parts of a PCI address in ``attach_info``, libvirt's name for each, and how many hex digits libvirt writes and takes.
_PARTS = (("domain", "domain", 4), ("bus", "bus", 2), ("device", "slot", 2), ("function", "function", 1))
_HEX = re.compile(r"[0-9a-fA-F]{1,8}")
#: Bytes above 4 GiB that OVMF gives to devices unasked, and QEMU's q35 too (OvmfPkg's PcdPciMmio64Size; hw/pci-host/q35.c).
_USUAL_HOLE = 32 << 30
_LARGEST = {"domain": 0xFFFF, "bus": 0xFF, "device": 0x1F, "function": 7}


@dataclass(frozen=True, slots=True)
class Screen:
    """A mediated device that draws for a console of the guest (libvirt.org/formatdomain.html, ``display`` and ``ramfb``).

    :param ramfb: also before the guest's driver is there: firmware and boot are seen.
    """

    ramfb: bool = False


def hostdev_xml(
    attach_type: str,
    attach_info: Mapping[str, str],
    attach_handle_uuid: str,
    *,
    prepared: bool = True,
    screen: Screen | None = None,
) -> str:
    """The element to put among a domain's devices, or to hand to ``virsh attach-device``.

    A mediated device is the one whose uuid is the handle's; it exists once its ARQ is Bound.

    :param prepared: the host's agent gives the function its driver and takes it away, as it does for every unit that is lent: then
        libvirt must not (``managed="no"``), or two would write into one device's ``driver_override``, and a unit of several functions
        be torn apart when its guest ends. False for a function that nobody prepares: libvirt does (``managed="yes"``).
    :param screen: of a mediated device.
    :raises BadRequest: ``attach-type-unknown`` for what no guest can take; ``attach-info-malformed``; ``no-screen`` for a card's function.
    """
    if attach_type == AttachType.PCI:
        if screen is not None:
            raise BadRequest(
                "no-screen", "a whole card draws on its own outputs: display and ramfb are for vGPUs alone"
            )
        hostdev = _of_function(attach_info, managed=not prepared)
    elif attach_type == AttachType.MDEV:
        hostdev = _of_mdev(attach_handle_uuid, screen)
    else:
        raise BadRequest(
            "attach-type-unknown",
            f"a handle of type {attach_type!r} cannot be put into a guest; those of type PCI and MDEV can",
            attach_type=attach_type,
        )
    return _text(hostdev)


def unit_xml(functions: Sequence[PciAddress], place: PciAddress, *, prepared: bool = True) -> str:
    """All functions of a card on one slot of the guest, as on the host: a driver that looks for its sound or USB function beside it finds
    it. Not for a domain that runs: libvirt takes and gives one function at a time then.

    :param functions: of one card, its own first.
    :param place: an empty slot of the guest; its function is not regarded.
    """
    elements = []
    for number, function in enumerate(functions):
        hostdev = _of_function(parts(function), managed=not prepared)
        spot = place._replace(function=function.function if number else 0)
        address = ElementTree.SubElement(hostdev, "address", {"type": "pci", **_pci_address(parts(spot))})
        if number == 0 and len(functions) > 1:
            address.set("multifunction", "on")
        elements.append(_text(hostdev))
    return "\n".join(elements)


def node_xml(node: str) -> str:
    """A device node for a container of libvirt's own LXC driver."""
    hostdev = ElementTree.Element("hostdev", mode="capabilities", type="misc")
    ElementTree.SubElement(ElementTree.SubElement(hostdev, "source"), "char").text = node
    return _text(hostdev)


def hole_xml(windows: Iterable[int]) -> str | None:
    """The controller that makes room above 4 GiB for cards with these windows (bytes each); None where the room that QEMU and its firmware
    make by themselves does. A power of two, and at least twice of what is asked: each window lies on a multiple of its size."""
    wanted = sum(windows)
    if 2 * wanted <= _USUAL_HOLE:
        return None
    controller = ElementTree.Element("controller", type="pci", index="0", model="pcie-root")
    ElementTree.SubElement(controller, "pcihole64", unit="KiB").text = str((1 << (2 * wanted - 1).bit_length()) >> 10)
    return _text(controller)


def parts(address: PciAddress) -> dict[str, str]:
    """An address as ``attach_info`` has it."""
    return {
        "domain": f"{address.domain:x}",
        "bus": f"{address.bus:x}",
        "device": f"{address.slot:x}",
        "function": f"{address.function:x}",
    }


def _of_function(attach_info: Mapping[str, str], *, managed: bool) -> ElementTree.Element:
    hostdev = ElementTree.Element("hostdev", mode="subsystem", type="pci", managed="yes" if managed else "no")
    source = ElementTree.SubElement(hostdev, "source")
    ElementTree.SubElement(source, "address", _pci_address(attach_info))
    return hostdev


def _of_mdev(handle: str, screen: Screen | None) -> ElementTree.Element:
    uuid = uuids.canonical(handle)
    if uuid is None:
        raise _malformed(f"the handle's uuid is {handle!r}, which is none")
    hostdev = ElementTree.Element("hostdev", mode="subsystem", type="mdev", managed="no", model="vfio-pci")
    if screen is not None:
        hostdev.set("display", "on")
        hostdev.set("ramfb", "on" if screen.ramfb else "off")
    source = ElementTree.SubElement(hostdev, "source")
    ElementTree.SubElement(source, "address", uuid=uuid)
    return hostdev


def _text(element: ElementTree.Element) -> str:
    ElementTree.indent(element)
    return ElementTree.tostring(element, encoding="unicode")


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
