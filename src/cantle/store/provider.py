"""How far hosts are published in Placement. Any number of keepers may be at it: a host is claimed with a committed compare-and-set.

Row locks do not replicate in a Galera cluster, so none is relied on: a keeper that dies loses its claim when the time of that is over,
and one that was slow finds out when it writes: each write asks whether the claim is still its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from cantle.errors import Conflict
from cantle.model.device import DeviceStatus
from cantle.model.host import DOWN_AFTER_S
from cantle.model.provider import Node, Record
from cantle.store.deployable import USED
from cantle.store.provider_tables import placement_hosts, placement_providers
from cantle.store.service import SERVICE, with_intents
from cantle.store.tables import claims, deployables, devices, hosts, intents
from cantle.store.types import Record as Row
from cantle.store.types import database_now

#: For how much longer than elsewhere a silent host counts as up here: a restart of the API, or of this host's agent, changes nothing in
#: Placement. Nothing is bound on it meanwhile.
PATIENCE_S = 120

_HEARD: ColumnElement[bool] = and_(
    hosts.c.last_seen.is_not(None), hosts.c.last_seen > database_now(-(DOWN_AFTER_S + PATIENCE_S))
)


def _held_back(claim: FromClause) -> ColumnElement[bool]:
    """A unit with no allocation in Placement: lent by a lease of ours, or its host could not take it back."""
    return or_(claim.c.lease_id.is_not(None), and_(~claim.c.wanted, claim.c.reason_code.is_not(None)))


_OPEN: ColumnElement[bool] = or_(
    placement_hosts.c.claimed_until.is_(None), placement_hosts.c.claimed_until <= database_now()
)
_HOSTS = select(
    hosts.c.id,
    hosts.c.hostname,
    hosts.c.digest,
    _HEARD.label("heard"),
    placement_hosts.c.host_id,
    placement_hosts.c.stamp,
    placement_hosts.c.attempts,
    (placement_hosts.c.due_at <= database_now()).label("due"),
    _OPEN.label("open"),
).select_from(hosts.outerjoin(placement_hosts, placement_hosts.c.host_id == hosts.c.id)).order_by(hosts.c.id)
_LEFT = select(
    placement_hosts.c.host_id, placement_hosts.c.hostname, (placement_hosts.c.due_at <= database_now()).label("due")
).where(~select(hosts.c.id).where(hosts.c.id == placement_hosts.c.host_id).exists(), _OPEN)

_DISABLED = case((devices.c.status != DeviceStatus.ENABLED, devices.c.id), else_=0)
#: What changes when something changes that decides about a publication, by host. Sums of numbers tell sets apart well enough for the
#: moments between two looks; every host is computed anew at each look at its tree anyway.
_MARKS = (
    select(
        devices.c.host_id, func.sum(_DISABLED), func.sum(_DISABLED * devices.c.id), func.max(devices.c.updated_at)
    ).group_by(devices.c.host_id),
    select(devices.c.host_id, func.sum(intents.c.version))
    .select_from(intents.join(devices, devices.c.id == intents.c.device_id))
    .group_by(devices.c.host_id),
    select(claims.c.host_id, func.count(), func.sum(claims.c.id), func.sum(claims.c.deployable_id))
    .where(_held_back(claims))
    .group_by(claims.c.host_id),
)

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
        devices.c.control_path_type,
        *(column for column in SERVICE if column.name != "up"),
        _HEARD.label("up"),
        USED,
        select(func.count())
        .select_from(_held)
        .where(_held.c.deployable_id == deployables.c.id, _held_back(_held))
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
_RECORDS = select(
    placement_providers.c.uuid,
    placement_providers.c.record,
    placement_providers.c.missing_since.is_not(None).label("missing"),
    (placement_providers.c.missing_since <= database_now(bindparam("since"))).label("vanished"),
).where(placement_providers.c.host_id == bindparam("of_host"))

_CLAIM = (
    update(placement_hosts)
    .where(placement_hosts.c.host_id == bindparam("of_host"), _OPEN)
    .values(claimed_by=bindparam("keeper"), claimed_until=database_now(bindparam("seconds")))
)
_MINE = and_(placement_hosts.c.host_id == bindparam("of_host"), placement_hosts.c.claimed_by == bindparam("keeper"))
_HOLD = update(placement_hosts).where(_MINE).values(claimed_until=database_now(bindparam("seconds")))
_FINISH = (
    update(placement_hosts)
    .where(_MINE)
    .values(
        stamp=bindparam("new_stamp"),
        due_at=database_now(bindparam("after")),
        attempts=bindparam("tries"),
        code=bindparam("new_code"),
        problem=bindparam("why"),
        waiting=bindparam("waits"),
        claimed_by=None,
        claimed_until=None,
    )
)
_STATE = select(
    placement_hosts,
    (placement_hosts.c.claimed_by.is_not(None)).label("left_behind"),
    or_(placement_hosts.c.looked_at.is_(None), placement_hosts.c.looked_at <= database_now(bindparam("before"))).label(
        "look_due"
    ),
).where(placement_hosts.c.host_id == bindparam("of_host"))

_DECODER = msgspec.json.Decoder(Record)


def surveyed(connection: Connection) -> tuple[list[tuple[Row, str]], Sequence[Row]]:
    """Every host with its stamp as it is now; and hosts that are gone and not done with. Five statements, whatever the number of hosts."""
    marks: dict[int, list[str]] = {}
    for query in _MARKS:
        for row in connection.execute(query):
            marks.setdefault(row[0], []).append("/".join(map(str, row[1:])))
    rows = connection.execute(_HOSTS).all()
    left = connection.execute(_LEFT).all()
    return [(row, _stamp(row, marks.get(row.id, []))) for row in rows], left


def _stamp(row: Row, marks: Sequence[str]) -> str:
    return hashlib.sha256("\n".join([row.digest or "", str(bool(row.heard)), *marks]).encode()).hexdigest()


def enroll(connection: Connection, rows: Mapping[int, str]) -> None:
    """Hosts, name by number, whose publication begins."""
    values = [{"host_id": number, "hostname": hostname} for number, hostname in rows.items()]
    connection.execute(insert(placement_hosts).values(attempts=0, due_at=database_now()), values)


def claim(connection: Connection, host_id: int, keeper: str, seconds: float, before_s: float) -> Row | None:
    """Take a host, unless another keeper has it: its row as it was before, with ``left_behind`` (whoever had it did not finish) and
    ``look_due``.

    :param keeper: a uuid used for this claim only.
    :param before_s: a tree that was not looked at for so many seconds is due.
    """
    state = connection.execute(_STATE, {"of_host": host_id, "before": -before_s}).first()
    taken = connection.execute(_CLAIM, {"of_host": host_id, "keeper": keeper, "seconds": seconds})
    return state if taken.rowcount == 1 else None


def parts(connection: Connection, host_id: int) -> Sequence[Row]:
    """What a host offers, with what `SERVICE` has, used and held_back units."""
    return connection.execute(_PARTS, {"of_host": host_id}).all()


def records(connection: Connection, host_id: int, grace_s: float) -> dict[str, tuple[Record, bool, bool]]:
    """By uuid, what we remember, whether its device is counted as missing, and whether that is so for longer than the grace."""
    rows = connection.execute(_RECORDS, {"of_host": host_id, "since": -grace_s})
    return {row.uuid: (_DECODER.decode(row.record), bool(row.missing), bool(row.vanished)) for row in rows}


def mark_missing(connection: Connection, missing: Sequence[str], found: Sequence[str]) -> None:
    """The devices of these providers are missing from now on, of those are not any more."""
    table = placement_providers
    if missing:
        connection.execute(update(table).where(table.c.uuid.in_(missing)).values(missing_since=database_now()))
    if found:
        connection.execute(update(table).where(table.c.uuid.in_(found)).values(missing_since=None))


def hold(connection: Connection, host_id: int, keeper: str, seconds: float) -> bool:
    """Keep a claim for longer; False when it is not ours any more."""
    return connection.execute(_HOLD, {"of_host": host_id, "keeper": keeper, "seconds": seconds}).rowcount == 1


def take_root(connection: Connection, host_id: int, root: Node) -> None:
    """This is the host's root provider.

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


def finish(
    connection: Connection,
    host_id: int,
    keeper: str,
    *,
    stamp: str | None,
    after_s: float,
    looked: bool,
    attempts: int = 0,
    code: str | None = None,
    problem: str | None = None,
    waiting: str | None = None,
    notes: str | None = None,
) -> bool:
    """A host is done with for so many seconds, unless it changes; False when it was not ours any more.

    :param looked: its tree was read.
    :param attempts: how often it went wrong in a row.
    """
    values: dict[str, Any] = {
        "of_host": host_id,
        "keeper": keeper,
        "new_stamp": stamp,
        "after": after_s,
        "tries": attempts,
        "new_code": code,
        "why": problem,
        "waits": waiting,
    }
    done = connection.execute(_FINISH, values).rowcount == 1
    times: dict[str, Any] = {"synced_at": database_now()} if done and not attempts else {}
    if done and looked:
        times |= {"looked_at": database_now(), "notes": notes}
    if times:
        connection.execute(update(placement_hosts).where(placement_hosts.c.host_id == host_id).values(**times))
    return done


def drop_host(connection: Connection, host_id: int) -> None:
    """Nothing of that host is left."""
    connection.execute(delete(placement_hosts).where(placement_hosts.c.host_id == host_id))
