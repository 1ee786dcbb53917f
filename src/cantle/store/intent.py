"""Intents: the latest wish for each device. Whoever writes here holds the host's row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, insert, select, update

from cantle.store.prepared import Prepared
from cantle.store.tables import arqs, attach_handles, claims, deployables, devices, hosts, intents, leases
from cantle.store.types import Record

_OF_HOST = Prepared(
    select(devices.c.address, intents.c.version, intents.c.intent)
    .select_from(
        intents.join(devices, devices.c.id == intents.c.device_id).join(hosts, hosts.c.id == devices.c.host_id)
    )
    .where(hosts.c.hostname == bindparam("hostname"))
    .order_by(devices.c.address)
)

_HOLDING = (
    select(
        claims.c.wanted,
        attach_handles.c.key,
        leases.c.uuid.label("lease_uuid"),
        leases.c.workload,
        arqs.c.instance_uuid,
    )
    .select_from(
        claims.join(deployables, deployables.c.id == claims.c.deployable_id)
        .join(attach_handles, attach_handles.c.id == claims.c.attach_handle_id)
        .outerjoin(leases, leases.c.id == claims.c.lease_id)
        .outerjoin(arqs, arqs.c.id == claims.c.arq_id)
    )
    .where(deployables.c.device_id == bindparam("of_device"))
    .order_by(claims.c.id)
)

_REPLACE = (
    update(intents)
    .where(intents.c.device_id == bindparam("of_device"))
    .values(
        version=bindparam("to_version"),
        intent=bindparam("to_intent"),
        set_by=bindparam("by"),
        updated_at=bindparam("now"),
    )
)


def of_host(connection: Connection, hostname: str) -> Sequence[Record]:
    """address, version and intent (text, None when cleared) of each device of a host that ever had a wish, by address."""
    return _OF_HOST.all(connection, {"hostname": hostname})


def holding(connection: Connection, device_id: int) -> Sequence[Record]:
    """Every unit of a device that is lent or being taken back: wanted, key, lease_uuid, workload, instance_uuid; the last three None
    where there is none any more."""
    return connection.execute(_HOLDING, {"of_device": device_id}).all()


def add(
    connection: Connection, device_id: int, *, version: int, text: str | None, set_by: str, now: dt.datetime
) -> None:
    """The first wish for a device."""
    values = {"device_id": device_id, "version": version, "intent": text, "set_by": set_by, "created_at": now}
    connection.execute(insert(intents), values)


def replace(
    connection: Connection, device_id: int, *, version: int, text: str | None, set_by: str, now: dt.datetime
) -> None:
    """The next wish for a device, or with None its clearing."""
    values = {"of_device": device_id, "to_version": version, "to_intent": text, "by": set_by, "now": now}
    connection.execute(_REPLACE, values)
