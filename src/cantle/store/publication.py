"""How far hosts are published in Placement. Any number of keepers may be at it: a host is claimed with a committed compare-and-set.

Row locks do not replicate in a Galera cluster, so none is relied on: a keeper that dies loses its claim when the time of that is over,
and one that was slow finds out when it writes: each write asks whether the claim is still its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

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

from cantle.model.device import DeviceStatus
from cantle.model.host import DOWN_AFTER_S
from cantle.store.provider_tables import placement_hosts
from cantle.store.tables import claims, devices, hosts, intents
from cantle.store.types import Record as Row
from cantle.store.types import database_now

#: For how much longer than elsewhere a silent host counts as up here: a restart of the API, or of this host's agent, changes nothing in
#: Placement. Nothing is bound on it meanwhile.
PATIENCE_S = 120

HEARD: ColumnElement[bool] = and_(
    hosts.c.last_seen.is_not(None), hosts.c.last_seen > database_now(-(DOWN_AFTER_S + PATIENCE_S))
)


def held_back(claim: FromClause) -> ColumnElement[bool]:
    """A unit with no allocation in Placement: lent by a lease of ours, or its host could not take it back."""
    return or_(claim.c.lease_id.is_not(None), and_(~claim.c.wanted, claim.c.reason_code.is_not(None)))


_OPEN: ColumnElement[bool] = or_(
    placement_hosts.c.claimed_until.is_(None), placement_hosts.c.claimed_until <= database_now()
)
_HOSTS = (
    select(
        hosts.c.id,
        hosts.c.hostname,
        hosts.c.digest,
        HEARD.label("heard"),
        hosts.c.drained_at,
        hosts.c.frozen_at,
        hosts.c.forgotten_at,
        placement_hosts.c.host_id,
        placement_hosts.c.stamp,
        placement_hosts.c.attempts,
        placement_hosts.c.code,
        (placement_hosts.c.due_at <= database_now()).label("due"),
        _OPEN.label("open"),
    )
    .select_from(hosts.outerjoin(placement_hosts, placement_hosts.c.host_id == hosts.c.id))
    .order_by(hosts.c.id)
)
_LEFT = select(
    placement_hosts.c.host_id,
    placement_hosts.c.hostname,
    placement_hosts.c.code,
    (placement_hosts.c.due_at <= database_now()).label("due"),
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
    .where(held_back(claims))
    .group_by(claims.c.host_id),
)

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
    closed = f"{row.drained_at} {row.frozen_at} {row.forgotten_at}"
    return hashlib.sha256("\n".join([row.digest or "", str(bool(row.heard)), closed, *marks]).encode()).hexdigest()


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


def state(connection: Connection, host_id: int) -> Row | None:
    """The row of a host; None if nothing was ever published of it."""
    return connection.execute(select(placement_hosts).where(placement_hosts.c.host_id == host_id)).first()


def hosts_named(connection: Connection, names: Sequence[str]) -> dict[str, int]:
    """Numbers of hosts by name; of all hosts if none is named."""
    query = select(hosts.c.hostname, hosts.c.id).where(hosts.c.forgotten_at.is_(None)).order_by(hosts.c.hostname)
    rows = connection.execute(query.where(hosts.c.hostname.in_(names)) if names else query)
    return {row.hostname: row.id for row in rows}


def hold(connection: Connection, host_id: int, keeper: str, seconds: float) -> bool:
    """Keep a claim for longer; False when it is not ours any more."""
    return connection.execute(_HOLD, {"of_host": host_id, "keeper": keeper, "seconds": seconds}).rowcount == 1


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


def claim_now(connection: Connection, host_id: int, hostname: str, keeper: str, seconds: float) -> bool:
    """Take a host for something else than publishing it, known before or not; False when a keeper has it."""
    if state(connection, host_id) is None:
        enroll(connection, {host_id: hostname})
    return connection.execute(_CLAIM, {"of_host": host_id, "keeper": keeper, "seconds": seconds}).rowcount == 1


def release(connection: Connection, host_id: int, keeper: str) -> None:
    """Give a host back, to be looked at as soon as may be."""
    values = {"claimed_by": None, "claimed_until": None, "due_at": database_now(), "attempts": 0, "looked_at": None}
    connection.execute(
        update(placement_hosts)
        .where(placement_hosts.c.host_id == host_id, placement_hosts.c.claimed_by == keeper)
        .values(**values)
    )


def drop_host(connection: Connection, host_id: int) -> None:
    """Nothing of that host is left."""
    connection.execute(delete(placement_hosts).where(placement_hosts.c.host_id == host_id))
