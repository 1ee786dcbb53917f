"""An attach handle: one unit that can be given to one guest. For mediated devices its uuid *is* the mdev's uuid (spec S0.7)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AttachType(StrEnum):
    """The contract's ``attach_handle_type``."""

    PCI = "PCI"
    """``attach_info``: domain, bus, device, function, as hex digit strings without 0x (``0000``, ``af``, ``00``, ``0``)."""
    MDEV = "MDEV"
    """The four of PCI (of the parent), plus ``asked_type`` (``nvidia-223``) and ``vgpu_mark`` (``nvidia-223_0``). A parent that
    is no PCI function has ``parent`` (``mtty``) in place of the four."""
    NODES = "NODES"
    """Device nodes, for containers alone: a card that no virtual machine can be given, or a MIG slice. ``attach_info``: the four of PCI,
    and of a slice ``gpu_instance`` and ``compute_instance`` (numbers) and, where it is known, ``mig_profile`` (``1g.5gb``)."""
    TEST_PCI = "TEST_PCI"
    """The fake driver's; ignored by Nova."""


@dataclass(frozen=True, slots=True)
class AttachHandle:
    """A unit as the server remembers it. ``key`` tells units of one deployable apart from report to report (``nvidia-223_0``)."""

    id: int
    uuid: str
    deployable_id: int
    key: str
    attach_type: AttachType
    attach_info: dict[str, str]
