"""The units of devices, for tests of reports."""

from __future__ import annotations

import msgspec
from sqlalchemy import select

from cantle.store.database import Database
from cantle.store.tables import attach_handles
from cantle.wire.inventory import DeviceReport, HandleReport


def handles(db: Database) -> dict[str, tuple[str, bool]]:
    """uuid and ``present`` of every handle by key."""
    with db.read() as connection:
        rows = connection.execute(select(attach_handles.c.key, attach_handles.c.uuid, attach_handles.c.present))
        return {row.key: (row.uuid, bool(row.present)) for row in rows}


def with_units(device: DeviceReport, units: tuple[HandleReport, ...]) -> DeviceReport:
    """The device offering other units."""
    (offered,) = device.deployables
    return msgspec.structs.replace(device, deployables=(msgspec.structs.replace(offered, handles=units),))
