"""What is taken over from a former manager, as rows: its requests, on units of ours."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from cantle.store.paging import numbers
from cantle.store.tables import arqs, attach_handles, claims, deployables, devices, hosts
from cantle.store.types import Record, database_now

_UNITS = (
    select(
        attach_handles.c.id,
        attach_handles.c.uuid,
        attach_handles.c.key,
        attach_handles.c.attach_type,
        attach_handles.c.attach_info,
        attach_handles.c.deployable_id,
        deployables.c.resource_class,
        devices.c.address.label("device"),
        claims.c.id.label("claim_id"),
    )
    .select_from(
        attach_handles.join(deployables, deployables.c.id == attach_handles.c.deployable_id)
        .join(devices, devices.c.id == deployables.c.device_id)
        .outerjoin(claims, claims.c.attach_handle_id == attach_handles.c.id)
    )
    .where(deployables.c.host_id == bindparam("of_host"))
    .order_by(attach_handles.c.id)
)


_DEPLOYABLES = (
    select(deployables.c.id, deployables.c.resource_class, devices.c.address.label("device"))
    .select_from(deployables.join(devices, devices.c.id == deployables.c.device_id))
    .where(deployables.c.host_id == bindparam("of_host"))
)
_ADD_UNITS = insert(attach_handles).returning(attach_handles.c.id, attach_handles.c.uuid)


def units(connection: Connection, host_id: int) -> Sequence[Record]:
    """The units of a host, each with the number of its claim if it is lent."""
    return connection.execute(_UNITS, {"of_host": host_id}).all()


def offers(connection: Connection, host_id: int) -> dict[int, Record]:
    """By number, the deployables of a host: resource_class, and the address of the device."""
    return {row.id: row for row in connection.execute(_DEPLOYABLES, {"of_host": host_id})}


def add_units(connection: Connection, rows: Sequence[dict[str, Any]]) -> list[int]:
    """Units that the host does not name, since somebody has them; their numbers in the same order."""
    return numbers(connection, _ADD_UNITS, [{**row, "present": False} for row in rows]) if rows else []


def known(connection: Connection, uuids: Sequence[str]) -> set[str]:
    """Those of these requests that are ours already."""
    return set(connection.execute(select(arqs.c.uuid).where(arqs.c.uuid.in_(uuids))).scalars())


def rename_units(connection: Connection, renamed: Sequence[tuple[int, str]]) -> None:
    """Units get other uuids: those of mediated devices that are there."""
    if renamed:
        which = update(attach_handles).where(attach_handles.c.id == bindparam("number"))
        values = [{"number": number, "other": uuid} for number, uuid in renamed]
        connection.execute(which.values(uuid=bindparam("other")), values)


def lend(connection: Connection, host_id: int, loans: Sequence[dict[str, Any]], moment: dt.datetime) -> None:
    """Claims of requests that are bound; the host is locked.

    :param loans: each attach_handle_id, deployable_id, arq_id, project_id, lent_by.
    """
    if loans:
        generation = connection.execute(select(hosts.c.generation).where(hosts.c.id == host_id)).scalar_one()
        fixed = {"host_id": host_id, "wanted": True, "generation": generation, "created_at": moment}
        connection.execute(insert(claims).values(lent_at=database_now()), [{**one, **fixed} for one in loans])
