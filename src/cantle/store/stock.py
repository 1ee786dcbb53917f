"""How much of a kind a host has free: the hint by which hosts are found (`cantle.store.kind_tables`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from cantle.store.host import UP
from cantle.store.kind_tables import stocks
from cantle.store.tables import attach_handles, claims, deployables, hosts
from cantle.store.types import RowId

_held = claims.alias("held")

#: Units that are free or coming back; of deployables to be joined or named outside.
_UNITS = attach_handles.join(deployables, deployables.c.id == attach_handles.c.deployable_id).outerjoin(
    _held, and_(_held.c.attach_handle_id == attach_handles.c.id, _held.c.wanted)
)
_FREE = and_(attach_handles.c.present, _held.c.id.is_(None))
_COUNT = (
    select(func.count())
    .select_from(_UNITS)
    .where(deployables.c.host_id == stocks.c.host_id, deployables.c.kind == stocks.c.kind, _FREE)
    .scalar_subquery()
)
_REFRESH = update(stocks).values(free=_COUNT)
_REFRESH_HOSTS = _REFRESH.where(stocks.c.host_id.in_(bindparam("ids", expanding=True)))
_REFRESH_WRONG = _REFRESH.where(stocks.c.free != _COUNT)

_COUNTED = (
    select(
        deployables.c.host_id,
        deployables.c.kind,
        func.sum(case((_FREE, 1), else_=0)),
    )
    .select_from(
        deployables.outerjoin(attach_handles, attach_handles.c.deployable_id == deployables.c.id).outerjoin(
            _held, and_(_held.c.attach_handle_id == attach_handles.c.id, _held.c.wanted)
        )
    )
    .where(deployables.c.host_id == bindparam("of_host"), deployables.c.kind.is_not(None))
    .group_by(deployables.c.host_id, deployables.c.kind)
)
_RENEW = insert(stocks).from_select(["host_id", "kind", "free"], _COUNTED, include_defaults=False)
_FORGET = delete(stocks).where(stocks.c.host_id == bindparam("of_host"))

#: Pages grow by this: few statements also where most hosts that are found do not do.
GROWTH = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """A host that has as many free units as are wanted, by the hint."""

    host_id: int
    free: int


@dataclass(frozen=True, slots=True)
class Need:
    """So many units of one of these kinds."""

    kinds: frozenset[str]
    units: int


def renew(connection: Connection, host_id: int) -> None:
    """Count anew what a host has of each kind, kinds it has for the first time among them. Its row is locked."""
    connection.execute(_FORGET, {"of_host": host_id})
    connection.execute(_RENEW, {"of_host": host_id})


def refresh(connection: Connection, host_ids: Collection[int]) -> None:
    """Count anew what these hosts have of the kinds they are known to have."""
    connection.execute(_REFRESH_HOSTS, {"ids": list(host_ids)})


def refresh_wrong(connection: Connection) -> int:
    """Count anew wherever the hint is wrong; how many it was. Something else than a lease holds or gave back units there."""
    return connection.execute(_REFRESH_WRONG).rowcount


def candidates(
    connection: Connection,
    needs: Sequence[Need],
    *,
    emptiest: bool,
    limit: int,
    after: Candidate | None = None,
    hostname: str | None = None,
) -> list[Candidate]:
    """Hosts that are up and have what all needs want: the fullest first, or the emptiest; then by number.

    The first need is found by an index, the others are looked up for each host that is found.
    """
    first, others = needs[0], needs[1:]
    values: dict[str, Any] = {"kinds": sorted(first.kinds), "units": first.units, "most": limit}
    for number, need in enumerate(others):
        values |= {f"kinds_{number}": sorted(need.kinds), f"units_{number}": _least(need)}
    if after is not None:
        values |= {"after_free": after.free, "after_host": after.host_id}
    if hostname is not None:
        values["only"] = hostname
    query = _query(len(first.kinds) == 1, len(others), emptiest, after is not None, hostname is not None)
    return [Candidate(row.host_id, int(row.free)) for row in connection.execute(query, values)]


def _least(need: Need) -> int:
    """What one kind must have at least: all of it if there is no other."""
    return need.units if len(need.kinds) == 1 else 1


@lru_cache(maxsize=64)
def _query(single: bool, others: int, emptiest: bool, further: bool, only: bool) -> Select[Any]:
    """The statement for one shape of question."""
    of_kinds = stocks.c.kind.in_(bindparam("kinds", expanding=True))
    if single:
        found = select(stocks.c.host_id, stocks.c.free).where(of_kinds, stocks.c.free >= bindparam("units")).subquery()
    else:
        together = func.sum(stocks.c.free)
        found = (
            select(stocks.c.host_id, together.label("free"))
            .where(of_kinds, stocks.c.free > 0)
            .group_by(stocks.c.host_id)
            .having(together >= bindparam("units"))
            .subquery()
        )
    query = select(found.c.host_id, found.c.free).join(hosts, hosts.c.id == found.c.host_id).where(UP)
    for number in range(others):
        other = stocks.alias(f"other_{number}")
        query = query.where(
            exists().where(
                other.c.host_id == found.c.host_id,
                other.c.kind.in_(bindparam(f"kinds_{number}", expanding=True)),
                other.c.free >= bindparam(f"units_{number}"),
            )
        )
    if only:
        query = query.where(hosts.c.hostname == bindparam("only"))
    if further:
        query = query.where(_beyond(found.c.free, found.c.host_id, emptiest=emptiest))
    # Backwards all of it, so that the same index serves.
    order = (found.c.free.desc(), found.c.host_id.desc()) if emptiest else (found.c.free, found.c.host_id)
    return query.order_by(*order).limit(bindparam("most"))


def _beyond(free: ColumnElement[int], host: ColumnElement[int], *, emptiest: bool) -> ColumnElement[bool]:
    last, number = bindparam("after_free", type_=Integer), bindparam("after_host", type_=RowId)
    if emptiest:
        return or_(free < last, and_(free == last, host < number))
    return or_(free > last, and_(free == last, host > number))
