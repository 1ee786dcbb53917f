"""A card in the place of another: what was known of the one that was there must not be said of the one that is there now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from cantle.model.problem import Problem
from cantle.store import decommission
from cantle.store.inventory import Standing
from cantle.store.types import Record
from cantle.wire.inventory import DeviceReport

#: What tells two cards of one kind apart, where a driver says it, in ``vendor_board_info`` or ``std_board_info``.
_OWN = ("serial", "uuid", "serial_number", "gpu_uuid")


def is_another(row: Record, device: DeviceReport) -> bool:
    """Whether the card that is reported is surely not the one that is known: of another kind, or with another serial number or uuid. What
    only one of the two says tells nothing."""
    ids = ((row.vendor_id, device.vendor_id), (row.product_id, device.product_id))
    if any(before and now and before != now for before, now in ids):
        return True
    known = {**row.std_board_info, **row.vendor_board_info}
    told = {**device.std_board_info, **device.vendor_board_info}
    return any(known.get(name) and told.get(name) and known[name] != told[name] for name in _OWN)


def remembered(row: Record, device: DeviceReport) -> dict[str, str]:
    """``vendor_board_info`` of a card, with the serial number and uuids that it said of itself before and cannot say now: on vfio-pci it
    has no driver that would tell them, and asleep it is not asked."""
    before = {name: text for name, text in row.vendor_board_info.items() if name in _OWN}
    return {**before, **device.vendor_board_info}


def make_room(
    connection: Connection, standing: Standing, usable: Sequence[DeviceReport]
) -> tuple[dict[str, str], list[Problem]]:
    """Take out what is known of cards that others are in the place of, so that these are taken in as new ones.

    One of which something is lent stays, and the card in its place is not taken in until that is given back: by address why, for the
    former, and the problems that tell a person.
    """
    kept: dict[str, str] = {}
    problems: list[Problem] = []
    for device in usable:
        row = standing.devices.get(device.address)
        if row is None or not is_another(row, device):
            continue
        lent = _lent(standing, row.id)
        if lent:
            kept[device.address] = f"another card is in its place, and {lent} units of it are lent"
            problems.append(
                Problem(
                    device.address,
                    "card-swapped",
                    f"Another card ({device.vendor_id}:{device.product_id} {device.model}) is in the place of {row.vendor_id}:"
                    f"{row.product_id} {row.model}, of which {lent} units are lent. Give them back; then the new card is taken in.",
                )
            )
            continue
        decommission.remove_device(connection, row.id)
        del standing.devices[device.address]
        for number in (one.id for one in standing.deployables.pop(row.id, {}).values()):
            standing.handles.pop(number, None)
            standing.attributes.pop(number, None)
    return kept, problems


def _lent(standing: Standing, device_id: int) -> int:
    deployables: Mapping[str, Record] = standing.deployables.get(device_id, {})
    handles = (row for one in deployables.values() for row in standing.handles.get(one.id, {}).values())
    return sum(row.claim_id is not None for row in handles)
