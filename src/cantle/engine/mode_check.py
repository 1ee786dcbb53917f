"""Whether a device can be what an operator wants it to be, by what its host has said of it; and whether it is free to be changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection

from cantle.errors import Conflict
from cantle.model.device import Device, Mode
from cantle.model.intent import MODES, Intent
from cantle.store import intent as store
from cantle.store.types import Record

#: Users or types named in a message; more are counted.
_NAMED = 20


def hardware(device: Device) -> str:
    """Vendor and device id of the card at an address, as an intent has them; "" for what is no PCI function."""
    return f"{device.vendor_id}:{device.product_id}" if device.vendor_id and device.product_id else ""


def possible(device: Device) -> tuple[Mode, ...]:
    """The modes it can be asked to be in. An unassignable card cannot be lent whole, but may still be cut."""
    if device.mode is Mode.DISPLAY_ONLY:
        return ()
    known = {*device.capabilities, device.mode}
    return tuple(mode for mode in MODES if mode in known and not (mode is Mode.PASSTHROUGH and _no_whole(device)))


def impossible(device: Device, intent: Intent) -> Conflict | None:
    """Why the device cannot be brought to what is wanted: ``other-hardware`` or ``mode-not-possible``; None when nothing is known against
    it. What its host alone can find out, it reports when it tries."""
    if intent.hardware and intent.hardware != hardware(device):
        return Conflict(
            "other-hardware",
            f"The card at {device.address} of {device.hostname} is {hardware(device) or 'no PCI function'}, "
            f"not {intent.hardware}; look which card is where.",
            hardware=hardware(device),
        )
    return _no_mode(device, intent.mode) or _no_types(device, intent.types)


def in_use(connection: Connection, device: Device) -> Conflict | None:
    """Who holds units of the device, as ``device-in-use``; also those whose units its host has yet to take back."""
    rows = store.holding(connection, device.id)
    if not rows:
        return None
    held = [row for row in rows if row.wanted]
    told = f"{device.address} of {device.hostname} is in use by {_named(map(_user, held))}; release that first."
    if not held:
        told = (
            f"{device.hostname} has yet to take back what was lent of {device.address}: {_named(map(_user, rows))}. "
            "Try again when it has."
        )
    return Conflict("device-in-use", told, leases=_uuids(rows, "lease_uuid"), instances=_uuids(rows, "instance_uuid"))


def _no_whole(device: Device) -> bool:
    return device.mode is Mode.UNASSIGNABLE


def _no_mode(device: Device, mode: Mode) -> Conflict | None:
    modes = possible(device)
    if mode in modes:
        return None
    message = f"{device.address} of {device.hostname} cannot be brought to mode {mode}"
    if device.mode in (Mode.DISPLAY_ONLY, Mode.UNASSIGNABLE):
        message += f": it is {device.mode}" + (f" ({device.reason})" if device.reason else "")
    message += f"; it can be {' or '.join(modes)}." if modes else "; its mode cannot be chosen at all."
    return Conflict("mode-not-possible", message, modes=list(modes))


def _no_types(device: Device, types: Mapping[str, str]) -> Conflict | None:
    """A host that has not said which types there are is left to find out by itself."""
    if not device.mdev_types:
        return None
    everywhere = {type_id: name for offered in device.mdev_types.values() for type_id, name in offered.items()}
    for parent, type_id in types.items():
        offered = device.mdev_types.get(parent, everywhere if parent == device.address else None)
        if offered is None:
            message = (
                f"{parent} makes no mediated devices for {device.address}; its parents are {_named(device.mdev_types)}."
            )
            return Conflict("mode-not-possible", message, parents=sorted(device.mdev_types))
        if type_id not in offered:
            names = (f"{known} ({name})" if name else known for known, name in offered.items())
            message = f"{parent} of {device.hostname} makes no {type_id}; its types are {_named(names) or 'none'}."
            return Conflict("mode-not-possible", message, types=sorted(offered))
    return None


def _user(row: Record) -> str:
    if row.lease_uuid is not None:
        return f"lease {row.lease_uuid}" + (f" ({row.workload})" if row.workload else "")
    if row.instance_uuid is not None:
        return f"instance {row.instance_uuid}"
    return f"unit {row.key}"


def _named(names: Iterable[str]) -> str:
    """Each once, in their order."""
    known = list(dict.fromkeys(names))
    more = len(known) - _NAMED
    return ", ".join(known[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _uuids(rows: Sequence[Record], column: str) -> list[str]:
    return sorted({uuid for row in rows if (uuid := getattr(row, column)) is not None})
