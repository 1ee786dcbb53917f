"""What a report says, in the columns of the database, and what the rows say in the same form. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from cantle.model.kind import facts
from cantle.store.types import Record
from cantle.wire.inventory import DeployableReport, DeviceReport

_PCI_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")

#: Columns of a device that a report fills.
_SEEN = (
    "type",
    "vendor",
    "model",
    "vendor_id",
    "product_id",
    "mode",
    "health",
    "reason",
    "numa_node",
    "capabilities",
    "std_board_info",
    "vendor_board_info",
    "mdev_types",
    "intent_version",
    "intent_tried",
    "intent_code",
    "intent_error",
    "plans",
    "labels",
)
_OFFERED = ("driver_name", "resource_class", "traits", "total", "kind")


def device_values(device: DeviceReport) -> dict[str, Any]:
    """What a report says of a device, by column."""
    seen = {column: getattr(device, column) for column in _SEEN}
    return seen | {"plans": _plans(device), "labels": device.labels or None}


def _plans(device: DeviceReport) -> str | None:
    """As text: the server stores them for whoever asks and never looks into them here."""
    return msgspec.json.encode(device.plans, order="deterministic").decode() if device.plans else None


def row_values(row: Record) -> dict[str, Any]:
    """What a device's row says in the place of that."""
    return {column: getattr(row, column) for column in _SEEN}


def row_offer(row: Record) -> dict[str, Any]:
    """What a deployable's row says in the place of the next."""
    return {column: getattr(row, column) for column in _OFFERED}


def kind(device: DeviceReport, one: DeployableReport) -> tuple[str, str]:
    """Digest and JSON text of the kind that a deployable of a device is."""
    return facts(
        resource_class=one.resource_class,
        mode=device.mode,
        vendor_id=device.vendor_id,
        product_id=device.product_id,
        model=device.model,
        capabilities=device.capabilities,
        traits=one.traits,
        labels=device.labels,
    )


def offered_values(one: DeployableReport, kind: str | None) -> dict[str, Any]:
    """What a report says of a deployable, by column.

    :param kind: digest of its kind.
    """
    return {
        "driver_name": one.driver_name,
        "resource_class": one.resource_class,
        "traits": tuple(one.traits),
        "total": len(one.handles),
        "kind": kind,
    }


def nothing(row: Record) -> DeployableReport:
    """A deployable its device no longer offers: what it was, with no unit in it."""
    return DeployableReport(
        name=row.name,
        driver_name=row.driver_name,
        resource_class=row.resource_class,
        traits=tuple(row.traits),
        handles=(),
    )


def attribute_values(one: DeployableReport) -> dict[str, str]:
    """In Cyborg's wording (contract section 3): ``rc``, ``trait0``, ``trait1`` …"""
    traits = {f"trait{number}": trait for number, trait in enumerate(one.traits)}
    return {**one.attributes, "rc": one.resource_class, **traits}


def control_path(address: str) -> tuple[str, dict[str, str]]:
    """Type and facts of the way over which the host manages a device (spec S0.6)."""
    parts = _PCI_ADDRESS.fullmatch(address)
    if parts is None:
        return "PARENT", {"parent": address}
    return "PCI", dict(zip(("domain", "bus", "device", "function"), parts.groups(), strict=True))
