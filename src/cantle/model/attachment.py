"""Which guest a lease goes into by itself: a libvirt domain, an LXC container, or a name that container engines know (CDI)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from cantle.errors import BadRequest

#: What all of them take as a name: it becomes a file's name too.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class GuestKind(StrEnum):
    """How a unit enters a guest."""

    LIBVIRT = "libvirt"
    """As a ``<hostdev>`` of the domain: a virtual machine has it on its bus."""
    LXC = "lxc"
    """As device nodes of the container, by its configuration and at once if it runs."""
    INCUS = "incus"
    """As devices of a container of Incus or LXD."""
    CDI = "cdi"
    """As a device of the Container Device Interface, which podman, containerd, CRI-O and docker give to a container by name."""

    @property
    def is_container(self) -> bool:
        """Whether such a guest uses a card through its driver on the host."""
        return self is not GuestKind.LIBVIRT


@dataclass(frozen=True, slots=True)
class Attachment:
    """A guest on the lease's host, written ``lxc:c1``.

    :param name: of the domain or container; with CDI the name of the device, which is then ``cantle/lease=NAME``.
    """

    kind: GuestKind
    name: str

    @classmethod
    def parse(cls, text: str) -> Attachment:
        """:raises BadRequest: ``bad-attachment``."""
        kind, colon, name = text.partition(":")
        if not colon or kind not in GuestKind.__members__.values() or not _NAME.fullmatch(name):
            raise BadRequest(
                "bad-attachment",
                f"attach is {text!r}; write libvirt:NAME, lxc:NAME, incus:NAME or cdi:NAME, with a name of at most 63 letters, digits, "
                "'_', '.' and '-' that begins and ends with a letter or digit",
                attach=text,
            )
        return cls(GuestKind(kind), name)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"
