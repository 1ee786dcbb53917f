"""What became of every unit, counted by host and class."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, and_, case, func, literal, select

from cantle.model.device import Health
from cantle.model.lease import Stage
from cantle.store.service import IN_SERVICE, with_intents
from cantle.store.tables import attach_handles, claims, deployables, devices, hosts
from cantle.store.types import Record

#: A unit is in exactly one of these.
_STATE = case(
    (claims.c.wanted, literal("lent")),
    (claims.c.stage == Stage.CLEANING, literal("cleaning")),
    (claims.c.stage == Stage.QUARANTINED, literal("quarantined")),
    (claims.c.id.is_not(None), literal("releasing")),
    (devices.c.health == Health.MISSING, literal("missing")),
    (and_(IN_SERVICE, attach_handles.c.present), literal("lendable")),
    else_=literal("withheld"),
)
_COUNTED = (
    select(hosts.c.hostname, deployables.c.resource_class, _STATE.label("state"), func.count().label("units"))
    .select_from(
        with_intents(
            attach_handles.join(deployables, deployables.c.id == attach_handles.c.deployable_id)
            .join(devices, devices.c.id == deployables.c.device_id)
            .join(hosts, hosts.c.id == deployables.c.host_id)
            .outerjoin(claims, claims.c.attach_handle_id == attach_handles.c.id)
        )
    )
    .group_by(hosts.c.hostname, deployables.c.resource_class, _STATE)
)


def counted(connection: Connection, hostname: str | None = None) -> Sequence[Record]:
    """hostname, resource_class, state, units. One statement."""
    query = _COUNTED if hostname is None else _COUNTED.where(hosts.c.hostname == hostname)
    return connection.execute(query).all()
