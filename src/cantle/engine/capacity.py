"""How much of everything is free."""

from __future__ import annotations

from cantle.model.capacity import Capacity
from cantle.store import deployable as store
from cantle.store.database import Database
from cantle.store.service import why_not


def list_capacity(db: Database) -> list[Capacity]:
    """Every deployable's units, by host and device."""
    with db.read() as connection:
        rows = store.capacity(connection)
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
            free=0 if reason else row.free,
            in_service=reason is None,
            reason=reason,
        )
        for row in rows
        for reason in (why_not(row),)
    ]
