"""What one host has, read as a whole and changed as a whole. The number of statements does not depend on how much it has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, delete, insert, select, update

from cantle.store.paging import chunks, numbers
from cantle.store.tables import attach_handles, attributes, claims, deployables, devices
from cantle.store.types import Record

_OF_HOST: BindParameter[int] = bindparam("host_id")
_DEVICES = select(devices).where(devices.c.host_id == _OF_HOST)
_DEPLOYABLES = select(deployables).where(deployables.c.host_id == _OF_HOST)
_HANDLES = (
    select(attach_handles, claims.c.id.label("claim_id"))
    .select_from(
        attach_handles.join(deployables, deployables.c.id == attach_handles.c.deployable_id).outerjoin(
            claims, claims.c.attach_handle_id == attach_handles.c.id
        )
    )
    .where(deployables.c.host_id == _OF_HOST)
    .order_by(attach_handles.c.id)
)
_ATTRIBUTES = (
    select(attributes)
    .join(deployables, deployables.c.id == attributes.c.deployable_id)
    .where(deployables.c.host_id == _OF_HOST)
    .order_by(attributes.c.id)
)

_TABLES = {"devices": devices, "deployables": deployables, "attach_handles": attach_handles, "attributes": attributes}


@dataclass(slots=True)
class Standing:
    """What the database says a host has. Handles have ``claim_id``, None when free."""

    devices: dict[str, Record] = field(default_factory=dict)
    """By address."""
    deployables: dict[int, dict[str, Record]] = field(default_factory=lambda: defaultdict(dict))
    """By number of the device and by name."""
    handles: dict[int, dict[str, Record]] = field(default_factory=lambda: defaultdict(dict))
    """By number of the deployable and by key."""
    attributes: dict[int, dict[str, Record]] = field(default_factory=lambda: defaultdict(dict))
    """By number of the deployable and by key."""


def standing(connection: Connection, host_id: int) -> Standing:
    """Four statements, whatever the host has."""
    found = Standing()
    of_host = {"host_id": host_id}
    for row in connection.execute(_DEVICES, of_host):
        found.devices[row.address] = row
    for row in connection.execute(_DEPLOYABLES, of_host):
        found.deployables[row.device_id][row.name] = row
    for row in connection.execute(_HANDLES, of_host):
        found.handles[row.deployable_id][row.key] = row
    for row in connection.execute(_ATTRIBUTES, of_host):
        found.attributes[row.deployable_id][row.key] = row
    return found


def handles_with(connection: Connection, uuids: Sequence[str]) -> dict[str, int]:
    """By uuid, the number of the deployable that has a handle with it."""
    found: dict[str, int] = {}
    for some in chunks(uuids):
        query = select(attach_handles.c.uuid, attach_handles.c.deployable_id).where(
            attach_handles.c.uuid.in_(list(some))
        )
        found.update((row.uuid, row.deployable_id) for row in connection.execute(query))
    return found


def add(connection: Connection, table: str, rows: Sequence[dict[str, Any]]) -> list[int]:
    """New rows of one of the four tables; their numbers in the same order."""
    if not rows:
        return []
    to = _TABLES[table]
    return numbers(connection, insert(to).returning(to.c.id, to.c.uuid), rows)


def change(connection: Connection, table: str, rows: Sequence[dict[str, Any]]) -> None:
    """Set columns of rows; each has its ``id`` and all have the same columns."""
    if not rows:
        return
    to = _TABLES[table]
    columns = [column for column in rows[0] if column != "id"]
    statement = (
        update(to)
        .where(to.c.id == bindparam("row_id"))
        .values({column: bindparam(f"to_{column}") for column in columns})
    )
    connection.execute(
        statement, [{"row_id": row["id"], **{f"to_{column}": row[column] for column in columns}} for row in rows]
    )


def remove(connection: Connection, table: str, ids: Sequence[int]) -> None:
    """Delete rows."""
    to = _TABLES[table]
    for some in chunks(ids):
        connection.execute(delete(to).where(to.c.id.in_(list(some))))
