"""ARQs that part from their host: unbound, deleted, or removed because nobody ever came back for them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, or_, select, update

from cantle.model.arq import BINDABLE, ArqState
from cantle.store.arq import HOLDING
from cantle.store.prepared import Prepared
from cantle.store.tables import arqs, claims, hosts
from cantle.store.types import Record, database_now

#: ARQs to be unbound or deleted, with the name of the host on which each holds a unit.
_TO_PART = select(
    arqs.c.id,
    arqs.c.uuid,
    arqs.c.state,
    arqs.c.project_id,
    arqs.c.instance_uuid,
    arqs.c.lease_id,
    hosts.c.hostname.label("held_on"),
).select_from(arqs.outerjoin(claims, HOLDING).outerjoin(hosts, hosts.c.id == claims.c.host_id))
_TO_PART_BY_UUID = Prepared(_TO_PART.where(arqs.c.uuid.in_(bindparam("uuids", expanding=True))), lists=("uuids",))
_TO_PART_OF_INSTANCE = Prepared(_TO_PART.where(arqs.c.instance_uuid == bindparam("instance")))

#: Not bound since it was read: whoever held a unit then is held still by his host's lock, but a bind of the others is not. The state is
#: asked of the row itself, for that is what a database looks at again after it has waited for somebody's bind.
_UNTOUCHED = and_(
    arqs.c.id.in_(bindparam("ids", expanding=True)),
    or_(
        and_(arqs.c.state != ArqState.BIND_STARTED, arqs.c.state != ArqState.BOUND),
        arqs.c.id.in_(bindparam("holding", expanding=True)),
    ),
)
_PART = Prepared(
    update(arqs)
    .where(_UNTOUCHED)
    .values(
        state=ArqState.UNBOUND,
        hostname=None,
        device_rp_uuid=None,
        instance_uuid=None,
        nth_of_instance=None,
        deadline=None,
        announced_until=None,
        reason_code=None,
        reason=None,
        updated_at=bindparam("now"),
    ),
    lists=("ids", "holding"),
)
_REMOVE = Prepared(delete(arqs).where(_UNTOUCHED), lists=("ids", "holding"))

#: Nobody has touched it for so long, by the times written on it.
_LEFT: ColumnElement[bool] = and_(
    or_(*(arqs.c.state == state for state in sorted(BINDABLE))),
    arqs.c.lease_id.is_(None),
    func.coalesce(arqs.c.updated_at, arqs.c.created_at) < database_now(bindparam("ago")),
)
_ALL_LEFT = select(arqs.c.id, arqs.c.uuid, arqs.c.project_id).where(_LEFT).order_by(arqs.c.id).limit(bindparam("most"))
_REMOVE_LEFT = delete(arqs).where(arqs.c.id.in_(bindparam("ids", expanding=True)), _LEFT)


def to_part(connection: Connection, uuids: Sequence[str]) -> Sequence[Record]:
    """id, uuid, state, project_id, instance_uuid, lease_id, held_on of the ARQs named."""
    return _TO_PART_BY_UUID.all(connection, {"uuids": uuids})


def to_part_of_instance(connection: Connection, instance: str) -> Sequence[Record]:
    """The same of all ARQs of an instance."""
    return _TO_PART_OF_INSTANCE.all(connection, {"instance": instance})


def part(connection: Connection, ids: Sequence[int], holding: Sequence[int], now: dt.datetime) -> int:
    """Make ARQs Unbound: they name no host, provider or instance any more. How many were: fewer than given when one that is not in
    ``holding`` was bound meanwhile, or another has gone."""
    return _PART.change(connection, {"ids": ids, "holding": holding, "now": now})


def remove(connection: Connection, ids: Sequence[int], holding: Sequence[int]) -> int:
    """Delete ARQs; their claims stay. How many were, as for `part`."""
    return _REMOVE.change(connection, {"ids": ids, "holding": holding})


def left(connection: Connection, seconds: float, most: int) -> Sequence[Record]:
    """id, uuid, project_id of ARQs that are bound to nothing and that nobody has touched for so long."""
    return connection.execute(_ALL_LEFT, {"ago": -seconds, "most": most}).all()


def remove_left(connection: Connection, ids: Sequence[int], seconds: float) -> int:
    """Delete these, as far as they still are so; how many were."""
    return connection.execute(_REMOVE_LEFT, {"ids": list(ids), "ago": -seconds}).rowcount
