"""A device: one card of a host, by PCI address or by the name of its mediated-device parent."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cantle.model.intent import IntentStatus


class Mode(StrEnum):
    """What a device *is* now. What it could be is its capabilities, which outlive a change of mode."""

    PASSTHROUGH = "passthrough"
    """The whole function (or slot) is lent to one guest."""
    MDEV = "mdev"
    """Mediated devices are made on it, one per guest."""
    VENDOR_VFIO = "vendor-vfio"
    """Its virtual functions carry vGPU types by NVIDIA's own VFIO framework."""
    SRIOV = "sriov"
    """Its virtual functions are lent as they are."""
    MIG = "mig"
    """It is cut into MIG instances."""
    DISPLAY_ONLY = "display-only"
    """It drives the host's console (a BMC's VGA) and is never lent."""
    UNASSIGNABLE = "unassignable"
    """It cannot be lent; the reason says why."""


class Health(StrEnum):
    """How well the device is known and works."""

    OK = "ok"
    DEGRADED = "degraded"
    """A probe failed or a configured thing is not there yet; the last good value is kept and the reason says what is missing."""
    MISSING = "missing"
    """The host's last report did not name it. Nothing is deleted for that."""
    FAILED = "failed"
    """The device does not work (reads 0xffff, a step broke half-way); not lent until mended."""


#: Healths with which a device's units are lent: of a degraded one the driver reports just the units it vouches for.
LENDABLE = frozenset({Health.OK, Health.DEGRADED})


class DeviceStatus(StrEnum):
    """What the operator wants: the ``status`` of accelerator API 2.3."""

    ENABLED = "enabled"
    MAINTAINING = "maintaining"


class DeviceType(StrEnum):
    """The ``type`` of the accelerator API (contract section 1.5)."""

    GPU = "GPU"
    FPGA = "FPGA"
    AICHIP = "AICHIP"
    QAT = "QAT"
    NIC = "NIC"
    SSD = "SSD"
    MDEV = "MDEV"
    PCI = "PCI"
    NVME = "NVME"


@dataclass(frozen=True, slots=True)
class ControlPath:
    """How the host reaches a device to manage it (spec S0.6). ``type`` is ``PCI`` with domain, bus, device and function as hex digits
    in ``info``, or ``PARENT`` with the ``parent``'s name for one that is no PCI function."""

    uuid: str
    type: str
    info: dict[str, str]


@dataclass(frozen=True, slots=True)
class Device:
    """A device as the server remembers it.

    ``address`` is its identity on its host: a PCI address ``0000:af:00.0`` or a parent's name ``mtty``. ``vendor_id`` and
    ``product_id`` are four lower-case hex digits without 0x, "" where there are none. ``vendor`` is what the v2 API shows
    (Cyborg's vendor field: the vendor id in hex). Times are aware, UTC. ``intent`` is what an operator wants it to be;
    ``out_of_service`` is why nothing may be lent of it now, in words. ``mdev_types`` has, by parent, id and name of the mediated types
    it can make; ``labels`` are what its host's configuration says of it.
    """

    id: int
    uuid: str
    hostname: str
    address: str
    type: DeviceType
    vendor: str
    model: str
    vendor_id: str
    product_id: str
    mode: Mode
    health: Health
    status: DeviceStatus
    created_at: dt.datetime
    intent: IntentStatus
    updated_at: dt.datetime | None = None
    reason: str | None = None
    out_of_service: str | None = None
    numa_node: int | None = None
    capabilities: tuple[str, ...] = ()
    mdev_types: dict[str, dict[str, str]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    std_board_info: dict[str, str] = field(default_factory=dict)
    vendor_board_info: dict[str, str] = field(default_factory=dict)
    control_path: ControlPath | None = None

    @property
    def intent_reason(self) -> str | None:
        """Why the device is not what it is wanted to be, in words, with whatever else keeps its host from following; None when it is."""
        why = self.intent.why_not(self.address)
        if why is None or self.out_of_service in (None, why):
            return why
        return f"{why}; {self.out_of_service}"
