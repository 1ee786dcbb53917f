"""What became of every unit, counted by host and class."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, and_, case, func, literal, select, union_all

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
_NAMED = (
    select(attach_handles.c.deployable_id, func.count().label("units"))
    .group_by(attach_handles.c.deployable_id)
    .subquery()
)
_NAMELESS = deployables.c.total - func.coalesce(_NAMED.c.units, 0)
_WHERE_NAMELESS = case((devices.c.health == Health.MISSING, literal("missing")), else_=literal("withheld"))
#: A unit that was taken for free by force has no uuid until its host reports it under another one.
_COUNTED_NAMELESS = (
    select(
        hosts.c.hostname,
        deployables.c.resource_class,
        _WHERE_NAMELESS.label("state"),
        func.sum(_NAMELESS).label("units"),
    )
    .select_from(
        deployables.join(devices, devices.c.id == deployables.c.device_id)
        .join(hosts, hosts.c.id == deployables.c.host_id)
        .outerjoin(_NAMED, _NAMED.c.deployable_id == deployables.c.id)
    )
    .where(_NAMELESS > 0)
    .group_by(hosts.c.hostname, deployables.c.resource_class, _WHERE_NAMELESS)
)


def counted(connection: Connection, hostname: str | None = None) -> Sequence[Record]:
    """hostname, resource_class, state, units; one state may be there twice. One statement."""
    parts = (_COUNTED, _COUNTED_NAMELESS)
    if hostname is not None:
        parts = (_COUNTED.where(hosts.c.hostname == hostname), _COUNTED_NAMELESS.where(hosts.c.hostname == hostname))
    return connection.execute(union_all(*parts)).all()
