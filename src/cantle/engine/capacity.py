"""How much of everything is free."""

from __future__ import annotations

from cantle.model.capacity import Capacity
from cantle.model.page import Page
from cantle.store import deployable as store
from cantle.store.database import Database
from cantle.store.service import remark, why_not


def list_capacity(db: Database, *, page: Page | None = None, **where: str | None) -> list[Capacity]:
    """The units of deployables whose values are exactly these: hostname, device_uuid, resource_class. By host and device, unless a page
    is asked for.

    :param where: values by those names; None says nothing.
    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    """
    with db.read() as connection:
        rows = store.capacity(connection, where, page)
    return [
        Capacity(
            hostname=row.hostname,
            device_address=row.device_address,
            deployable_uuid=row.uuid,
            rp_uuid=row.rp_uuid,
            resource_class=row.resource_class,
            traits=row.traits,
            total=row.total,
            used=row.used,
            free=row.free if in_service else 0,
            in_service=in_service,
            reason=remark(row),
        )
        for row in rows
        for in_service in (why_not(row) is None,)
    ]
