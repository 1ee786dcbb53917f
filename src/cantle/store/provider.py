"""Providers of ours in Placement: what a host has to publish, what we remember of each, and who has something of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import msgspec
from sqlalchemy import (
    Connection,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from cantle.errors import Conflict
from cantle.model.arq import ArqState
from cantle.model.provider import Node, Record
from cantle.store.deployable import USED
from cantle.store.provider_tables import placement_hosts, placement_providers
from cantle.store.publication import HEARD, held_back
from cantle.store.service import SERVICE, with_intents
from cantle.store.tables import arqs, claims, deployables, devices, hosts
from cantle.store.types import Record as Row
from cantle.store.types import database_now

_held = claims.alias("held")


_PARTS = (
    select(
        deployables.c.id,
        deployables.c.rp_uuid,
        deployables.c.name,
        deployables.c.resource_class,
        deployables.c.traits,
        deployables.c.total,
        devices.c.mode,
        devices.c.model,
        devices.c.numa_node,
        devices.c.vendor_id,
        devices.c.product_id,
        devices.c.control_path_type,
        devices.c.labels,
        *(column for column in SERVICE if column.name != "up"),
        HEARD.label("up"),
        USED,
        select(func.count())
        .select_from(_held)
        .where(_held.c.deployable_id == deployables.c.id, held_back(_held))
        .scalar_subquery()
        .label("held_back"),
    )
    .select_from(
        with_intents(
            deployables.join(devices, devices.c.id == deployables.c.device_id).join(
                hosts, hosts.c.id == deployables.c.host_id
            )
        )
    )
    .where(deployables.c.host_id == bindparam("of_host"))
    .order_by(deployables.c.id)
)
#: Units that the compute service's requests have, by deployable and provider.
_BOUND = (
    select(_held.c.deployable_id, arqs.c.device_rp_uuid, func.count().label("units"))
    .select_from(_held.join(arqs, arqs.c.id == _held.c.arq_id))
    .where(_held.c.host_id == bindparam("of_host"), _held.c.wanted, arqs.c.lease_id.is_(None))
    .where(arqs.c.device_rp_uuid.is_not(None))
    .group_by(_held.c.deployable_id, arqs.c.device_rp_uuid)
)
_RECORDS = select(
    placement_providers.c.uuid,
    placement_providers.c.record,
    placement_providers.c.missing_since.is_not(None).label("missing"),
    (placement_providers.c.missing_since <= database_now(bindparam("since"))).label("vanished"),
).where(placement_providers.c.host_id == bindparam("of_host"))

#: Whose every provider of ours is.
_ALL = select(
    placement_providers.c.uuid, placement_providers.c.record, placement_hosts.c.hostname, placement_hosts.c.root_uuid
).join(placement_hosts, placement_hosts.c.host_id == placement_providers.c.host_id)
_OF_HOST = _ALL.where(placement_hosts.c.hostname == bindparam("hostname"))

#: States of a request in which it has a unit, or is being given one.
HOLDING = (ArqState.BIND_STARTED, ArqState.BOUND)

_DECODER = msgspec.json.Decoder(Record)


def parts(connection: Connection, host_id: int) -> Sequence[Row]:
    """What a host offers, with what `SERVICE` has, and units: used, held_back."""
    return connection.execute(_PARTS, {"of_host": host_id}).all()


def bound(connection: Connection, host_id: int) -> dict[int, dict[str, int]]:
    """By number of a deployable and provider, how many units of it requests of the compute service have that were bound there."""
    found: dict[int, dict[str, int]] = defaultdict(dict)
    for row in connection.execute(_BOUND, {"of_host": host_id}):
        found[row.deployable_id][row.device_rp_uuid] = row.units
    return found


def records(connection: Connection, host_id: int, grace_s: float) -> dict[str, tuple[Record, bool, bool]]:
    """By uuid, what we remember, whether its device is counted as missing, and whether that is so for longer than the grace."""
    rows = connection.execute(_RECORDS, {"of_host": host_id, "since": -grace_s})
    return {row.uuid: (_DECODER.decode(row.record), bool(row.missing), bool(row.vanished)) for row in rows}


def everywhere(connection: Connection, hostname: str | None = None) -> list[tuple[str, str | None, Record]]:
    """Of every host, or one: its name, its root provider, and what we remember of a provider; by name of host and provider."""
    statement, values = (_ALL, {}) if hostname is None else (_OF_HOST, {"hostname": hostname})
    rows = connection.execute(statement, values)
    found = [(row.hostname, row.root_uuid, _DECODER.decode(row.record)) for row in rows]
    return sorted(found, key=lambda one: (one[0], one[2].name))


def mark_missing(connection: Connection, missing: Sequence[str], found: Sequence[str]) -> None:
    """The devices of these providers are missing from now on, of those are not any more."""
    table = placement_providers
    if missing:
        connection.execute(update(table).where(table.c.uuid.in_(missing)).values(missing_since=database_now()))
    if found:
        connection.execute(update(table).where(table.c.uuid.in_(found)).values(missing_since=None))


def check_root(connection: Connection, host_id: int, root: Node) -> None:
    """Make sure that a root provider is not another host's.

    :raises Conflict: ``provider-of-other-host``.
    """
    other = connection.execute(
        select(placement_hosts.c.hostname).where(
            placement_hosts.c.root_uuid == root.uuid, placement_hosts.c.host_id != host_id
        )
    ).scalar()
    if other is not None:
        raise Conflict(
            "provider-of-other-host",
            f"Provider {root.name} ({root.uuid}) is that of host {other}; two hosts cannot have one. Name the right one in [placement] "
            "provider_names.",
        )


def take_root(connection: Connection, host_id: int, root: Node) -> None:
    """This is the host's root provider.

    :raises Conflict: ``provider-of-other-host``.
    """
    check_root(connection, host_id, root)
    values = {"root_uuid": root.uuid, "root_name": root.name}
    connection.execute(update(placement_hosts).where(placement_hosts.c.host_id == host_id).values(**values))


def keep(connection: Connection, host_id: int, some: Sequence[Record]) -> None:
    """Write records; new ones become the host's."""
    known = set(
        connection.execute(
            select(placement_providers.c.uuid).where(placement_providers.c.uuid.in_([one.uuid for one in some]))
        ).scalars()
    )
    values = [{"key": one.uuid, "text": msgspec.json.encode(one).decode()} for one in some]
    changed = [one for one in values if one["key"] in known]
    new = [{"uuid": one["key"], "host_id": host_id, "record": one["text"]} for one in values if one["key"] not in known]
    if changed:
        by_uuid = placement_providers.c.uuid == bindparam("key")
        connection.execute(update(placement_providers).where(by_uuid).values(record=bindparam("text")), changed)
    if new:
        connection.execute(insert(placement_providers), new)


def forget(connection: Connection, uuids: Sequence[str]) -> None:
    """Those providers are no more."""
    connection.execute(delete(placement_providers).where(placement_providers.c.uuid.in_(uuids)))


def held(connection: Connection, uuids: Sequence[str]) -> dict[str, Counter[str]]:
    """By provider and instance, how many requests of the compute service hold a unit there or are being given one."""
    rows = connection.execute(
        select(arqs.c.device_rp_uuid, arqs.c.instance_uuid, func.count())
        .where(arqs.c.device_rp_uuid.in_(uuids), arqs.c.lease_id.is_(None), arqs.c.state.in_(HOLDING))
        .group_by(arqs.c.device_rp_uuid, arqs.c.instance_uuid)
    )
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for provider, instance, count in rows:
        found[provider][instance] = count
    return found


def change_uuid(connection: Connection, deployable_id: int, before: str, after: str) -> None:
    """A deployable is another provider from now on, and so are requests for it; what was remembered of the former is forgotten. The host
    is locked, and claimed for it."""
    forget(connection, [before])
    connection.execute(update(deployables).where(deployables.c.id == deployable_id).values(rp_uuid=after))
    connection.execute(update(arqs).where(arqs.c.device_rp_uuid == before).values(device_rp_uuid=after))
