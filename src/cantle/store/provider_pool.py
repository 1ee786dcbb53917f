"""Pools: deployables that are offered together as one provider, and which of them is in which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, and_, bindparam, case, delete, insert, select, update

from cantle.model.device import Mode
from cantle.store.deployable import FAILING, FREE, PLACES, PROVIDERS
from cantle.store.prepared import Prepared
from cantle.store.provider_tables import pool_members
from cantle.store.tables import deployables, devices, hosts
from cantle.store.types import Record

_OF_POOLS = pool_members.c.pool_uuid.in_(bindparam("pools", expanding=True))
_LOCK = Prepared(
    update(hosts)
    .values(generation=hosts.c.generation + 1)
    .where(hosts.c.id.in_(select(pool_members.c.host_id).where(_OF_POOLS))),
    lists=("pools",),
)
_MEMBERS = Prepared(
    PROVIDERS.add_columns(FREE, pool_members.c.pool_uuid)
    .select_from(
        PLACES.join(
            pool_members,
            and_(pool_members.c.deployable_id == deployables.c.id, pool_members.c.host_id == deployables.c.host_id),
        )
    )
    .where(_OF_POOLS)
    .order_by(case((FAILING, 1), else_=0), deployables.c.id),
    lists=("pools",),
)


def members(connection: Connection, pools: Sequence[str]) -> dict[str, list[Record]]:
    """By pool, its deployables with what `cantle.store.deployable.providers` has and their free units; those that failed a moment ago
    last. Their hosts are locked, as `cantle.store.host.lock_of_providers` does. No statement if no pool is named."""
    if not pools:
        return {}
    _LOCK.change(connection, {"pools": pools})
    found: dict[str, list[Record]] = defaultdict(list)
    for row in _MEMBERS.all(connection, {"pools": pools}):
        found[row.pool_uuid].append(row)
    return dict(found)


def poolable_classes(connection: Connection) -> set[str]:
    """Classes of cards that are lent whole."""
    query = (
        select(deployables.c.resource_class)
        .distinct()
        .join(devices, devices.c.id == deployables.c.device_id)
        .where(devices.c.mode == Mode.PASSTHROUGH)
    )
    return set(connection.execute(query).scalars())


def of_host(connection: Connection, host_id: int) -> dict[int, tuple[str, str]]:
    """By number of the deployable, uuid and key of the pool it is in."""
    rows = connection.execute(select(pool_members).where(pool_members.c.host_id == host_id))
    return {row.deployable_id: (row.pool_uuid, row.pool_key) for row in rows}


def replace(connection: Connection, host_id: int, by_deployable: Mapping[int, tuple[str, str]]) -> None:
    """Set a host's pools."""
    connection.execute(delete(pool_members).where(pool_members.c.host_id == host_id))
    if by_deployable:
        connection.execute(
            insert(pool_members),
            [
                {"deployable_id": number, "host_id": host_id, "pool_uuid": pool, "pool_key": key}
                for number, (pool, key) in by_deployable.items()
            ],
        )
