"""How much of a kind a host has free: the hint by which hosts are found (`cantle.store.kind_tables`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

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
    union_all,
    update,
)

from cantle.store.host import UP
from cantle.store.kind_tables import stocks
from cantle.store.service import OPEN
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
    mixed: bool = False,
) -> list[Candidate]:
    """Hosts that are up and have what all needs want: the fullest first, or the emptiest; then by number.

    The first need is found by an index, the others are looked up for each host that is found. A host is found by what it has of one
    kind, once for each of which it has enough; ``mixed`` finds those that have enough of several kinds together, and looks at every
    host for it.
    """
    first, others = needs[0], needs[1:]
    values: dict[str, Any] = {"units": first.units, "most": limit}
    kinds = sorted(first.kinds)
    values |= {"kinds": kinds} if mixed else {f"kind_{number}": kind for number, kind in enumerate(kinds)}
    for number, need in enumerate(others):
        values |= {f"kinds_{number}": sorted(need.kinds), f"units_{number}": _least(need)}
    if after is not None:
        values |= {"after_free": after.free, "after_host": after.host_id}
    if hostname is not None:
        values["only"] = hostname
    shape = _Shape(0 if mixed else len(kinds), len(others), emptiest, after is not None, hostname is not None)
    return [Candidate(row.host_id, int(row.free)) for row in connection.execute(_query(shape), values)]


def _least(need: Need) -> int:
    """What one kind must have at least: all of it if there is no other."""
    return need.units if len(need.kinds) == 1 else 1


class _Shape(NamedTuple):
    """What decides about the text of the statement. ``kinds`` 0: of all together."""

    kinds: int
    others: int
    emptiest: bool
    further: bool
    only: bool


@lru_cache(maxsize=256)
def _query(shape: _Shape) -> Select[int, int]:
    if shape.kinds == 0:
        together = func.sum(stocks.c.free)
        counted = (
            select(stocks.c.host_id, together.label("free"))
            .where(stocks.c.kind.in_(bindparam("kinds", expanding=True)), stocks.c.free > 0)
            .group_by(stocks.c.host_id)
            .having(together >= bindparam("units"))
            .subquery()
        )
        return _first(shape, counted.c.host_id, counted.c.free)
    parts = []
    for number in range(shape.kinds):
        stock = stocks.alias(f"stock_{number}")
        part = _first(shape, stock.c.host_id, stock.c.free)
        parts.append(part.where(stock.c.kind == bindparam(f"kind_{number}"), stock.c.free >= bindparam("units")))
    if len(parts) == 1:
        return parts[0]
    both = union_all(*(select(part.subquery()) for part in parts)).subquery()
    return _ordered(shape, select(both.c.host_id, both.c.free), both.c.free, both.c.host_id)


def _first(shape: _Shape, host: ColumnElement[int], free: ColumnElement[int]) -> Select[int, int]:
    """The first of those hosts that are up, have what the others need, and lie behind the last page."""
    query = select(host.label("host_id"), free.label("free")).join(hosts, hosts.c.id == host).where(UP, OPEN)
    for number in range(shape.others):
        other = stocks.alias(f"other_{number}")
        query = query.where(
            exists().where(
                other.c.host_id == host,
                other.c.kind.in_(bindparam(f"kinds_{number}", expanding=True)),
                other.c.free >= bindparam(f"units_{number}"),
            )
        )
    if shape.only:
        query = query.where(hosts.c.hostname == bindparam("only"))
    if shape.further:
        query = query.where(_beyond(free, host, emptiest=shape.emptiest))
    return _ordered(shape, query, free, host)


def _ordered(
    shape: _Shape, query: Select[int, int], free: ColumnElement[int], host: ColumnElement[int]
) -> Select[int, int]:
    # Backwards all of it, so that the same index serves.
    order = (free.desc(), host.desc()) if shape.emptiest else (free, host)
    return query.order_by(*order).limit(bindparam("most"))


def _beyond(free: ColumnElement[int], host: ColumnElement[int], *, emptiest: bool) -> ColumnElement[bool]:
    last, number = bindparam("after_free", type_=Integer), bindparam("after_host", type_=RowId)
    if emptiest:
        return or_(free < last, and_(free == last, host < number))
    return or_(free > last, and_(free == last, host > number))
