"""Devices: look up, take out of service and back."""

from __future__ import annotations

import dataclasses

from sqlalchemy import Connection

from cantle.engine import audit
from cantle.engine.clock import now
from cantle.errors import NotFound
from cantle.model import uuids
from cantle.model.device import Device, DeviceStatus
from cantle.model.identity import Identity
from cantle.model.page import Page
from cantle.store import device as store
from cantle.store.database import Database


def list_devices(
    db: Database,
    *,
    type: str | None = None,
    vendor: str | None = None,
    hostname: str | None = None,
    page: Page | None = None,
) -> list[Device]:
    """Devices whose values are exactly these.

    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    """
    with db.read() as connection:
        return store.listed(connection, type=type, vendor=vendor, hostname=hostname, page=page)


def get_device(db: Database, uuid: str) -> Device:
    """One device.

    :raises NotFound: ``device-not-found``, also for what is no uuid.
    """
    with db.read() as connection:
        return _found(connection, uuid)


def set_status(db: Database, who: Identity, uuid: str, status: DeviceStatus) -> Device:
    """Take a device out of service (``maintaining``: nothing new is claimed from it; what is lent stays lent) or put it back.

    :raises NotFound: ``device-not-found``.
    """

    def work(connection: Connection) -> Device:
        device = _found(connection, uuid)
        if device.status == status:
            return device
        changed = now()
        store.set_status(connection, device.id, status, changed)
        return dataclasses.replace(device, status=status, updated_at=changed)

    device = db.run(work)
    audit.note(who, "device.set_status", device.uuid, status)
    return device


def _found(connection: Connection, uuid: str) -> Device:
    device = store.by_uuid(connection, uuids.canonical(uuid) or "")
    if device is None:
        raise NotFound("device-not-found", f"There is no device {uuid}.", uuid=uuid)
    return device
