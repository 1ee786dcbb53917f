"""ARQs on their way to a host: what a bind looks at, and each change of state that it may end with."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Float, bindparam, case, null, or_, select, update

from cantle.model.arq import BINDABLE, ArqState
from cantle.store.arq import HOLDING, OF_EVENT
from cantle.store.attachment_table import attachments
from cantle.store.prepared import Prepared
from cantle.store.tables import arqs, claims, hosts, instance_owners, leases
from cantle.store.types import Record, database_now

_ANNOUNCED = bindparam("announced", type_=Float())
#: In so many seconds; NULL for 0.
_ANNOUNCED_UNTIL: ColumnElement[dt.datetime | None] = case((_ANNOUNCED > 0, database_now(_ANNOUNCED)), else_=null())

#: The ARQs to be bound, all others of the same instances, and the remembered owner of each instance.
_TO_BIND = Prepared(
    select(
        arqs.c.id,
        arqs.c.uuid,
        arqs.c.state,
        arqs.c.lease_id,
        arqs.c.project_id,
        arqs.c.hostname,
        arqs.c.device_rp_uuid,
        arqs.c.instance_uuid,
        arqs.c.resource_class,
        arqs.c.required,
        arqs.c.forbidden,
        arqs.c.bind_serial,
        instance_owners.c.instance_uuid.label("owned_instance"),
        instance_owners.c.project_id.label("owner"),
    )
    .select_from(
        arqs.outerjoin(instance_owners, instance_owners.c.instance_uuid.in_(bindparam("instances", expanding=True)))
    )
    .where(
        or_(
            arqs.c.uuid.in_(bindparam("uuids", expanding=True)),
            arqs.c.instance_uuid.in_(bindparam("instances", expanding=True)),
        )
    ),
    lists=("uuids", "instances"),
)

_START = Prepared(
    update(arqs)
    .where(arqs.c.id == bindparam("arq_id"), or_(*(arqs.c.state == state for state in sorted(BINDABLE))))
    .values(
        state=ArqState.BIND_STARTED,
        hostname=bindparam("to_hostname"),
        device_rp_uuid=bindparam("to_rp"),
        instance_uuid=bindparam("to_instance"),
        nth_of_instance=bindparam("nth"),
        project_id=bindparam("to_project"),
        deadline=database_now(bindparam("seconds")),
        bind_serial=arqs.c.bind_serial + 1,
        announced_until=None,
        reason_code=None,
        reason=None,
        updated_at=bindparam("now"),
    )
)
_SETTLE = Prepared(
    update(arqs)
    .where(arqs.c.id == bindparam("arq_id"), arqs.c.state == bindparam("from_state"))
    .values(
        state=bindparam("to_state"),
        deadline=None,
        announced_until=_ANNOUNCED_UNTIL,
        reason_code=bindparam("code"),
        reason=bindparam("why"),
        updated_at=bindparam("now"),
    )
)
_OVERDUE = (
    select(
        *OF_EVENT,
        claims.c.host_id,
        hosts.c.hostname.label("held_on"),
        leases.c.uuid.label("lease_uuid"),
        attachments.c.kind.label("guest_kind"),
    )
    .select_from(
        arqs.join(claims, HOLDING)
        .join(hosts, hosts.c.id == claims.c.host_id)
        .outerjoin(leases, leases.c.id == arqs.c.lease_id)
        .outerjoin(attachments, attachments.c.lease_id == leases.c.id)
    )
    .where(arqs.c.deadline <= database_now())
    .order_by(arqs.c.deadline)
    .limit(bindparam("most"))
)
_EXPIRE = (
    update(arqs)
    .where(arqs.c.id == bindparam("arq_id"), arqs.c.state == ArqState.BIND_STARTED, arqs.c.deadline <= database_now())
    .values(
        state=ArqState.BIND_FAILED,
        deadline=None,
        announced_until=_ANNOUNCED_UNTIL,
        reason_code=bindparam("code"),
        reason=bindparam("why"),
        updated_at=bindparam("now"),
    )
)


def to_bind(connection: Connection, uuids: Sequence[str], instances: Sequence[str]) -> Sequence[Record]:
    """What a bind looks at, of the ARQs named and of all ARQs of these instances, each once per remembered owner (``owned_instance``,
    ``owner``)."""
    return _TO_BIND.all(connection, {"uuids": uuids, "instances": instances})


def start(connection: Connection, rows: Sequence[dict[str, Any]]) -> int:
    """Move ARQs that may be bound to BindStarted. How many were moved: fewer than given when somebody else was quicker.

    :raises IntegrityError: another call has just bound ARQs for one of the instances (``nth``, by instance).
    """
    return _START.change(connection, *rows)


def settle(connection: Connection, rows: Sequence[dict[str, Any]]) -> int:
    """Move ARQs from one state to another; how many were still in it. ``announced``: seconds for which a failure is announced, else 0."""
    return _SETTLE.change(connection, *rows)


def overdue(connection: Connection, most: int) -> Sequence[Record]:
    """`OF_EVENT`, host_id, held_on, lease_uuid, guest_kind of ARQs whose host did not answer in time."""
    return connection.execute(_OVERDUE, {"most": most}).all()


def expire(connection: Connection, arq_id: int, code: str, why: str, now: dt.datetime, *, announced: float) -> bool:
    """BindStarted past its deadline becomes BindFailed, announced for so many seconds; False when it no longer is."""
    values = {"arq_id": arq_id, "code": code, "why": why, "now": now, "announced": announced}
    return connection.execute(_EXPIRE, values).rowcount == 1
