"""Hosts: their row is the lock of everything that happens on the host."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Update,
    and_,
    bindparam,
    func,
    insert,
    select,
    update,
)

from cantle.model.host import CLOCK_MAY_BE_OFF_S, DOWN_AFTER_S, Host, Publication
from cantle.model.page import Page
from cantle.model.problem import Problem
from cantle.store.paging import narrowed, window
from cantle.store.prepared import Prepared
from cantle.store.provider_tables import placement_hosts
from cantle.store.tables import arqs, claims, deployables, devices, hosts
from cantle.store.types import Record, database_now

#: Whether a host was heard from lately, by the database's clock.
UP: ColumnElement[bool] = and_(hosts.c.last_seen.is_not(None), hosts.c.last_seen > database_now(-DOWN_AFTER_S))

#: How long a warning is shown after it was last given.
WARNING_LASTS_S = 900

#: A sign of life that was written longer ago was not written just now.
LATE_S = 30

_CENTURY_S = 3.2e9

_ALL = select(
    hosts,
    UP.label("up"),
    database_now().label("now"),
    select(func.count())
    .select_from(devices)
    .where(devices.c.host_id == hosts.c.id)
    .scalar_subquery()
    .label("device_count"),
    placement_hosts.c.host_id.label("published"),
    placement_hosts.c.synced_at,
    placement_hosts.c.waiting,
    placement_hosts.c.code,
    placement_hosts.c.problem,
).select_from(hosts.outerjoin(placement_hosts, placement_hosts.c.host_id == hosts.c.id))

SORT_KEYS = {"hostname": hosts.c.hostname, "created_at": hosts.c.created_at}

#: What a list can be narrowed by.
FILTERS: dict[str, ColumnElement[Any]] = {"hostname": hosts.c.hostname}

_UP_BY_NAME = select(hosts.c.hostname, UP.label("up")).where(hosts.c.forgotten_at.is_(None))

_ONE = select(hosts, UP.label("up"), database_now().label("now")).where(hosts.c.hostname == bindparam("hostname"))
_FIND, _FIND_LOCKED = Prepared(_ONE), Prepared(_ONE.with_for_update(of=hosts))

#: What is looked at each time that a host's agent waits or tells what it did: few columns, which are most of what a small row costs.
_SPOKEN_FOR = select(
    hosts.c.id,
    hosts.c.hostname,
    hosts.c.generation,
    hosts.c.confirmed,
    hosts.c.agent_start,
    hosts.c.former_starts,
    hosts.c.frozen_at,
    UP.label("up"),
).where(hosts.c.hostname == bindparam("hostname"))
_SPEAKS, _SPEAKS_LOCKED = Prepared(_SPOKEN_FOR), Prepared(_SPOKEN_FOR.with_for_update(of=hosts))

_wanted = hosts.alias("wanted")
_RAISE = update(hosts).values(generation=hosts.c.generation + 1)
_RAISE_BY_ID = Prepared(_RAISE.where(hosts.c.id.in_(bindparam("ids", expanding=True))), lists=("ids",))


def _raise_of(host_ids: Select[tuple[int]]) -> Update:
    """By a join: for ``IN`` with a query, MariaDB looks at every host there is."""
    wanted = host_ids.distinct().subquery()
    return _RAISE.where(hosts.c.id == wanted.c.host_id)


_RAISE_OF_PROVIDERS = Prepared(
    _raise_of(select(deployables.c.host_id).where(deployables.c.rp_uuid.in_(bindparam("rp_uuids", expanding=True)))),
    lists=("rp_uuids",),
)
_HELD = select(claims.c.host_id).join(arqs, claims.c.arq_id == arqs.c.id).where(claims.c.wanted)
_RAISE_OF_ARQS = Prepared(_raise_of(_HELD.where(arqs.c.uuid.in_(bindparam("uuids", expanding=True)))), lists=("uuids",))
_RAISE_OF_INSTANCE = Prepared(_raise_of(_HELD.where(arqs.c.instance_uuid == bindparam("instance"))))

_RAISE_IF_FREE = _RAISE.where(
    hosts.c.id.in_(select(_wanted.c.id).where(_wanted.c.id == bindparam("wanted")).with_for_update(skip_locked=True))
)
_RAISE_NAMED = _RAISE.where(hosts.c.hostname == bindparam("named"))

_SEEN = update(hosts).where(hosts.c.id == bindparam("host_id")).values(last_seen=database_now())
_SEEN_WITH_SKEW = _SEEN.values(clock_skew_ms=bindparam("skew"))
_OF_THESE = hosts.c.id.in_(bindparam("ids", expanding=True))
_SEEN_ALL = update(hosts).values(last_seen=database_now())
_SEEN_TOGETHER = Prepared(_SEEN_ALL.where(_OF_THESE), lists=("ids",))
_SEEN_IF_FREE = Prepared(
    _SEEN_ALL.where(
        hosts.c.id.in_(
            select(_wanted.c.id)
            .where(_wanted.c.id.in_(bindparam("ids", expanding=True)))
            .with_for_update(skip_locked=True)
        )
    ),
    lists=("ids",),
)
_SEEN_LATE = Prepared(_SEEN_ALL.where(_OF_THESE, hosts.c.last_seen < database_now(-LATE_S)), lists=("ids",))


def listed(
    connection: Connection,
    where: Mapping[str, object] | None = None,
    *,
    up: bool | None = None,
    page: Page | None = None,
) -> list[Host]:
    """Hosts whose `FILTERS` are exactly these; those that are up, or down, if asked."""
    query = narrowed(_ALL, FILTERS, where).where(hosts.c.forgotten_at.is_(None))
    if up is not None:
        query = query.where(UP if up else ~UP)
    page = page or Page(sort_key="hostname")
    query = window(connection, query, page, hosts, SORT_KEYS, marker=hosts.c.hostname)
    return [_host(row) for row in connection.execute(query)]


def who_is_up(connection: Connection) -> dict[str, bool]:
    """Whether each host was heard from lately, by its name."""
    return {row.hostname: bool(row.up) for row in connection.execute(_UP_BY_NAME)}


def find(connection: Connection, hostname: str, *, lock: bool = False) -> Record | None:
    """One host's row, with ``up``. Locked, nobody else changes anything on that host until the transaction ends."""
    found: Record | None = (_FIND_LOCKED if lock else _FIND).first(connection, {"hostname": hostname})
    return found


def spoken_for(connection: Connection, hostname: str, *, lock: bool = False) -> Record | None:
    """Of a host whose agent speaks: id, hostname, generation, confirmed, agent_start, former_starts, frozen_at, up. Locked as by `find`."""
    found: Record | None = (_SPEAKS_LOCKED if lock else _SPEAKS).first(connection, {"hostname": hostname})
    return found


def add(connection: Connection, hostname: str, now: dt.datetime) -> None:
    """A host nobody heard of before."""
    connection.execute(
        insert(hosts), {"hostname": hostname, "generation": 1, "former_starts": (), "problems": (), "created_at": now}
    )


def change(connection: Connection, host_id: int, **values: Any) -> None:
    """Set columns of one host."""
    connection.execute(update(hosts).where(hosts.c.id == host_id).values(**values))


def seen(connection: Connection, host_id: int, skew: float | None = None) -> None:
    """Its agent has just spoken; its clock is so many seconds ahead of the database's, None where that was not told."""
    if skew is None:
        connection.execute(_SEEN, {"host_id": host_id})
    else:
        connection.execute(_SEEN_WITH_SKEW, {"host_id": host_id, "skew": milliseconds(skew)})


def seen_if_free(connection: Connection, host_ids: Sequence[int]) -> int:
    """The agents of these hosts have spoken lately; how many that is written of. Only PostgreSQL passes over those that somebody has locked
    at this moment: a bind waits for none of the others."""
    statement = _SEEN_IF_FREE if connection.dialect.name == "postgresql" else _SEEN_TOGETHER
    return statement.change(connection, {"ids": host_ids})


def seen_late(connection: Connection, host_ids: Sequence[int]) -> None:
    """The same of those that were passed over: of these hosts, those of which nothing was written just now. It waits for them."""
    _SEEN_LATE.change(connection, {"ids": host_ids})


def milliseconds(seconds: float) -> int:
    """A difference of clocks as it is kept; one beyond a century is none."""
    return round(1000 * max(-_CENTURY_S, min(_CENTURY_S, seconds)))


def lock_of_providers(connection: Connection, rp_uuids: Sequence[str]) -> None:
    """Raise the generation of the hosts that have these providers, which locks them. Read what is there only after this."""
    _RAISE_OF_PROVIDERS.change(connection, {"rp_uuids": rp_uuids})


def lock_of_arqs(connection: Connection, uuids: Sequence[str]) -> int:
    """The same for the hosts on which these ARQs hold a unit; how many that are."""
    return _RAISE_OF_ARQS.change(connection, {"uuids": uuids})


def lock_of_instance(connection: Connection, instance: str) -> int:
    """The same for the hosts on which this instance's ARQs hold a unit; how many that are."""
    return _RAISE_OF_INSTANCE.change(connection, {"instance": instance})


def lock(connection: Connection, host_ids: Sequence[int]) -> None:
    """The same for hosts by number."""
    _RAISE_BY_ID.change(connection, {"ids": host_ids})


def names(connection: Connection, host_ids: Sequence[int]) -> list[str]:
    """Of hosts by number, in no order."""
    return list(connection.execute(select(hosts.c.hostname).where(hosts.c.id.in_(host_ids))).scalars())


def lock_if_free(connection: Connection, host_id: int) -> bool:
    """The same for one host, but not if somebody else has it locked at this moment; False then. Only PostgreSQL can tell: elsewhere it
    waits."""
    if connection.dialect.name == "postgresql":
        return connection.execute(_RAISE_IF_FREE, {"wanted": host_id}).rowcount == 1
    lock(connection, [host_id])
    return True


def lock_named(connection: Connection, hostname: str) -> bool:
    """The same for one host by name; False when there is none."""
    return connection.execute(_RAISE_NAMED, {"named": hostname}).rowcount == 1


def _host(row: Record) -> Host:
    return Host(
        id=row.id,
        hostname=row.hostname,
        up=bool(row.up),
        generation=row.generation,
        devices=row.device_count,
        created_at=row.created_at,
        last_seen=row.last_seen,
        agent_start=row.agent_start,
        problems=tuple(Problem(*problem) for problem in row.problems),
        placement=None if row.published is None else Publication(row.synced_at, row.waiting, row.code, row.problem),
        conditions=_conditions(row),
        agent_version=row.agent_version,
        clock_skew=None if row.clock_skew_ms is None else row.clock_skew_ms / 1000,
        drained_at=row.drained_at,
        drained_by=row.drained_by,
        frozen_at=row.frozen_at,
        frozen_reason=row.frozen_reason,
        sockets=row.sockets,
    )


def _conditions(row: Record) -> tuple[Problem, ...]:
    """What is to be known of a host: our words first, then its agent's."""
    found = [Problem("server", row.frozen_code, row.frozen_reason)] if row.frozen_at is not None else []
    found += [
        Problem("server", code, words)
        for code, words, said_at in row.warnings or ()
        if _is_fresh(said_at, row.now) and (row.frozen_at is None or code != row.frozen_code)
    ]
    skew = (row.clock_skew_ms or 0) / 1000
    if abs(skew) > CLOCK_MAY_BE_OFF_S:
        way = "ahead of" if skew > 0 else "behind"
        message = f"Its clock is {abs(skew):.0f} s {way} the database's. Nothing of ours depends on it; certificates and logs do."
        found.append(Problem("server", "clock-wrong", message))
    return tuple(found) + tuple(Problem(*one) for one in row.conditions or ())


def _is_fresh(said_at: str, now: dt.datetime) -> bool:
    return (now - dt.datetime.fromisoformat(said_at)).total_seconds() < WARNING_LASTS_S
