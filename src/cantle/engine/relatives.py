"""A card that is lent whole and its virtual functions, or the reverse: while one is lent the other is not offered (spec S4.3, S4.7). The
same is so of the MIG instances of a card.

A card is in one mode at a time, and its mode is not changed while it is lent. But somebody may enable virtual functions by hand, or take
them away. What a report names then is held back here, so that there is no row that could be lent, until its relative is given back.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence

import msgspec
from sqlalchemy import Connection

from cantle.model.pci_state import PciFunctionState, PciState, repaired
from cantle.model.problem import Problem
from cantle.store import host, stock
from cantle.store import relatives as store
from cantle.store.database import Database
from cantle.store.inventory import Standing
from cantle.store.types import Record
from cantle.wire.inventory import DeployableReport, DeviceReport

#: Of a card and a part of it that are lent at once.
TOGETHER = "pci-relatives-lent-together"

_log = logging.getLogger(__name__)

_HELD_BACK = frozenset({PciState.UNCLAIMABLE, PciState.UNAVAILABLE})


def hold_back(standing: Standing, devices: Sequence[DeviceReport]) -> tuple[list[DeviceReport], list[Problem]]:
    """The devices without units whose relatives are lent, and the problems that say so: as long as there are any, the report must be
    looked at again when it comes again."""
    found: list[DeviceReport] = []
    problems: list[Problem] = []
    for device in devices:
        row = standing.devices.get(device.address)
        lent = frozenset[str]() if row is None else _lent(standing, row.id)
        if device.address in lent and len(lent) > 1:
            problems.append(Problem(device.address, TOGETHER, _together(device.address, lent - {device.address})))
        keys = withheld(device.address, _keys(device.deployables), lent)
        if keys:
            told = f"{len(keys)} units of {device.address} are held back: {', '.join(sorted(lent))} of the same card is lent."
            problems.append(Problem(device.address, "pci-relative-lent", told))
            device = msgspec.structs.replace(  # noqa: PLW2901
                device, deployables=tuple(_without(one, keys) for one in device.deployables)
            )
        found.append(device)
    return found, problems


def repair(db: Database) -> None:
    """Mend what rows say that no report and no lease can have made: a unit that could be lent though a relative of it is lent is offered no
    more, and of a card that is lent together with its virtual functions its host's next report tells. Nobody loses what he has. One
    statement where nothing is wrong."""
    with db.read() as connection:
        if not store.beside_lent(connection):
            return

    def work(connection: Connection) -> list[Record]:
        host.lock(connection, sorted({row.host_id for row in store.beside_lent(connection)}))
        rows = list(store.beside_lent(connection))
        store.hide(connection, {row.id for row in rows if not row.is_lent})
        store.look_again(connection, {row.host_id for row in rows})
        stock.refresh(connection, sorted({row.host_id for row in rows}))
        return rows

    for row in db.run(work):
        if not row.is_lent:
            _log.error(
                "%s on %s could be lent though %s of the same card is: not offered now",
                row.key,
                row.hostname,
                row.lent_key,
            )
        elif row.key == row.address:
            _log.error("on %s: %s", row.hostname, _together(row.address, {row.lent_key}))


def _together(address: str, functions: Iterable[str]) -> str:
    named = ", ".join(sorted(functions))
    return (
        f"{address} is lent whole, and so is {named}, a part of it: somebody changed the database by hand. Whoever has it keeps it; "
        "nothing of the card is lent again until all of it is back. Find out who really uses it (cantle who), and release the other lease."
    )


def withheld(address: str, reported: Iterable[str], lent: Collection[str]) -> frozenset[str]:
    """Which of the reported units cannot be lent because of a relative.

    :param address: of the card: the unit of that key is the whole card, all others are parts of it.
    :param lent: keys of the card's units that are lent or being taken back.
    """
    rows = [
        PciFunctionState(
            key,
            PciState.ALLOCATED if key in lent else PciState.AVAILABLE,
            "lent" if key in lent else None,
            None if key == address else address,
        )
        for key in {*reported, *lent}
    ]
    states = repaired({row.address: row for row in rows})
    return frozenset(key for key, row in states.items() if row.state in _HELD_BACK)


def _lent(standing: Standing, device_id: int) -> frozenset[str]:
    handles = (
        handle
        for one in standing.deployables.get(device_id, {}).values()
        for handle in standing.handles.get(one.id, {}).values()
    )
    return frozenset(row.key for row in handles if row.claim_id is not None and row.attach_type in store.TYPES)


def _keys(deployables: Iterable[DeployableReport]) -> frozenset[str]:
    return frozenset(handle.key for one in deployables for handle in one.handles if handle.attach_type in store.TYPES)


def _without(one: DeployableReport, keys: Collection[str]) -> DeployableReport:
    return msgspec.structs.replace(one, handles=tuple(handle for handle in one.handles if handle.key not in keys))
