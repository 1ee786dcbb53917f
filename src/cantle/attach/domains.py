"""Guests as libvirt's own files have them, read without libvirt: who runs, who is defined, and which of the host's devices are theirs.

libvirt's QEMU driver keeps one file per running domain in ``/run/libvirt/qemu`` (a ``<domstatus>`` around the ``<domain>`` as it runs) and
one per defined domain in ``/etc/libvirt/qemu``; both are for root alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from cantle.errors import BadRequest
from cantle.kernel.root import Root
from cantle.model import uuids
from cantle.model.pci import PciAddress

RUNNING = "run/libvirt/qemu"
DEFINED = "etc/libvirt/qemu"
#: What Nova writes into the metadata of its domains (nova/virt/libvirt/config.py, LibvirtConfigGuestMetaNovaInstance).
_NOVA = re.compile(r"\{http://openstack\.org/xmlns/libvirt/nova/[0-9.]+\}instance")


@dataclass(frozen=True, slots=True)
class Domain:
    """A guest.

    :param devices: uuids of its mediated devices, and addresses of its PCI functions as sysfs writes them.
    :param running: else it is defined, and does not run now.
    :param of_nova: Nova made it, and makes it anew whenever it starts it.
    """

    name: str
    uuid: str
    devices: frozenset[str]
    running: bool
    of_nova: bool = False

    def __str__(self) -> str:
        return f"{self.name} ({self.uuid})"


def domains(root: Root) -> list[Domain]:
    """All guests, those that run first; one that runs and is defined is there twice. A file that is no domain is passed over.

    :raises HostError: ``host-read-failed``: nothing is known of guests then.
    """
    return [*_in(root, RUNNING, running=True), *_in(root, DEFINED, running=False)]


def _in(root: Root, directory: str, *, running: bool) -> Iterator[Domain]:
    for name in root.names(directory):
        if name.endswith(".xml"):
            text = root.read_or_none(f"{directory}/{name}")
            found = parse(text, running=running) if text is not None else None
            if found is not None:
                yield found


def parse(text: str, *, running: bool) -> Domain | None:
    """A domain out of the text of its file; None when it is none."""
    try:
        top = ElementTree.fromstring(text)  # noqa: S314 - written by libvirt, for root alone
    except ElementTree.ParseError:
        return None
    domain = top if top.tag == "domain" else top.find("domain")
    if domain is None:
        return None
    devices = frozenset(filter(None, map(_device, domain.iterfind("devices/hostdev/source/address"))))
    of_nova = any(_NOVA.match(one.tag) for one in domain.iterfind("metadata/*"))
    return Domain(domain.findtext("name", ""), domain.findtext("uuid", ""), devices, running, of_nova)


def _device(address: ElementTree.Element) -> str | None:
    uuid = address.get("uuid")
    if uuid is not None:
        return uuids.canonical(uuid)
    return _function(address.attrib)


def _function(parts: Mapping[str, str]) -> str | None:
    """A PCI address in sysfs's form; None for addresses of other buses (USB, SCSI)."""
    if "slot" not in parts or "bus" not in parts:
        return None
    try:
        numbers = [int(parts.get(part, "0"), 16) for part in ("domain", "bus", "slot", "function")]
        return str(PciAddress.parse("{:04x}:{:02x}:{:02x}.{:x}".format(*numbers)))
    except (ValueError, BadRequest):
        return None
