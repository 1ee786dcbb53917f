"""Which rows of attach handles are made, changed and deleted for one deployable's report. Pure.

A handle's identity is its key. Three rules keep what is lent safe:

- A claimed handle is never changed and never deleted: if the host no longer names it as it was lent, it is only marked ``present`` false.
- The rows left, claimed ones included, are never more than the host can deliver (its ``total``): of the free ones the last make room.
- A unit that exists already and is adopted brings its uuid: the row that has that uuid is that unit, whatever its key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cantle.model import uuids
from cantle.store.types import Record
from cantle.wire.inventory import HandleReport


@dataclass(slots=True)
class UnitPlan:
    """What happens to one deployable's rows: values of new ones, id and values of changed ones, ids of deleted ones."""

    add: list[dict[str, Any]] = field(default_factory=list)
    change: list[dict[str, Any]] = field(default_factory=list)
    remove: list[int] = field(default_factory=list)


def plan(reported: Sequence[HandleReport], rows: Mapping[str, Record]) -> UnitPlan:
    """The plan for what a host reports, given the rows by key (each with ``claim_id``). Uuids that belong to another deployable's unit
    were taken out of the report before."""
    found = UnitPlan()
    matched = _match(reported, rows)
    claimed = sum(row.claim_id is not None for row in rows.values())
    room = max(0, len(reported) - claimed)
    kept: set[int] = set()
    for key, handle in matched:
        row = rows.get(key)
        if row is not None and row.claim_id is not None:
            if _as_lent(row, handle) and row.present:
                kept.add(row.id)
        elif room > 0:
            room -= 1
            _free_unit(found, key, handle, row)
            if row is not None:
                kept.add(row.id)
    for row in rows.values():
        if row.id in kept:
            continue
        if row.claim_id is None:
            found.remove.append(row.id)
        elif row.present:
            found.change.append(_values(row, row.uuid, present=False))
    return found


def _match(reported: Sequence[HandleReport], rows: Mapping[str, Record]) -> list[tuple[str, HandleReport]]:
    """For each reported unit the key of the row it is, or that it will have. By adopted uuid first, then by key; a unit whose key
    belongs to a row that was recognised as another unit gets a key that is left over."""
    by_uuid = {row.uuid: key for key, row in rows.items()}
    keys = {handle.key: by_uuid[handle.uuid] for handle in reported if handle.uuid in by_uuid}
    taken = set(keys.values())
    for handle in reported:
        if handle.key not in keys and handle.key not in taken:
            keys[handle.key] = handle.key
            taken.add(handle.key)
    spare = [handle.key for handle in reported if handle.key not in taken]
    for handle in reported:
        if handle.key not in keys:
            keys[handle.key] = spare.pop(0)
    return [(keys[handle.key], handle) for handle in reported]


def _as_lent(row: Record, handle: HandleReport) -> bool:
    return (
        row.attach_type == handle.attach_type
        and row.attach_info == handle.attach_info
        and handle.uuid in (None, row.uuid)
    )


def _free_unit(found: UnitPlan, key: str, handle: HandleReport, row: Record | None) -> None:
    if row is None:
        found.add.append(
            {
                "uuid": handle.uuid or uuids.new(),
                "key": key,
                "attach_type": handle.attach_type,
                "attach_info": handle.attach_info,
                "present": True,
            }
        )
    elif not (row.present and _as_lent(row, handle)):
        found.change.append(
            {
                "id": row.id,
                "uuid": handle.uuid or row.uuid,
                "attach_type": handle.attach_type,
                "attach_info": handle.attach_info,
                "present": True,
            }
        )


def _values(row: Record, uuid: str, *, present: bool) -> dict[str, Any]:
    return {
        "id": row.id,
        "uuid": uuid,
        "attach_type": row.attach_type,
        "attach_info": row.attach_info,
        "present": present,
    }
