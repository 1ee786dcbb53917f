"""Devices: look up, take out of service and back."""

from __future__ import annotations

import dataclasses
import datetime as dt

from sqlalchemy import Connection

from cantle.engine import absent, announce, audit
from cantle.engine.clock import now
from cantle.model import uuids
from cantle.model.audit import Thing
from cantle.model.device import Device, DeviceStatus
from cantle.model.event import EventType
from cantle.model.identity import Identity
from cantle.model.intent import IntentState, canonical
from cantle.model.page import Page
from cantle.store import device as store
from cantle.store import host
from cantle.store.database import Database, report_topic
from cantle.store.wakeups import Patience


def list_devices(db: Database, *, page: Page | None = None, **where: str | None) -> list[Device]:
    """Devices whose values are exactly these: type, vendor, hostname, address, mode, health, status.

    :param where: values by those names; None says nothing.
    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    """
    with db.read() as connection:
        return store.listed(connection, where, page)


def get_device(db: Database, uuid: str) -> Device:
    """One device.

    :raises NotFound: ``device-not-found``, also for what is no uuid.
    """
    with db.read() as connection:
        return _found(connection, uuid)


def wait_device(db: Database, hostname: str, address: str, *, seconds: float = 0) -> Device:
    """The device at that address of a host as soon as its intent is not pending, at the latest after so many seconds.

    :param address: a PCI address in any usual spelling, or the name of a parent of mediated devices.
    :raises NotFound: ``host-not-found``, ``device-not-found``.
    """
    patience = Patience(seconds)
    with db.wakeups.waiter(report_topic(hostname)) as waiter:
        while True:
            with db.read() as connection:
                device = device_at(connection, hostname, address)
            pending = device.intent.state is IntentState.PENDING
            if not pending or patience.left == 0 or db.wakeups.stopped:
                return device
            waiter.wait(patience.left)


def device_at(connection: Connection, hostname: str, address: str) -> Device:
    """The same within a transaction, without waiting.

    :raises NotFound: ``host-not-found``, ``device-not-found``.
    """
    device = store.at(connection, hostname, canonical(address))
    if device is not None:
        return device
    if host.find(connection, hostname) is None:
        raise absent.host(hostname)
    raise absent.device_at(hostname, address)


def set_status(db: Database, who: Identity, uuid: str, status: DeviceStatus) -> Device:
    """Take a device out of service (``maintaining``: nothing new is claimed from it; what is lent stays lent) or put it back.

    :raises NotFound: ``device-not-found``.
    """

    def work(connection: Connection) -> Device:
        device = _found(connection, uuid)
        if device.status == status:
            return device
        host.lock_named(connection, device.hostname)  # or a claim that is being made would come after
        changed = now()
        store.set_status(connection, device.id, status, changed)
        about = Thing(hostname=device.hostname, device=device.address, facts={"status": str(status)})
        audit.record(connection, who, "device.set_status", about)
        tell(connection, EventType.DEVICE_STATUS, device, changed, status=str(status), was=str(device.status))
        return dataclasses.replace(device, status=status, updated_at=changed)

    device = db.run(work)
    audit.note(who, "device.set_status", device.uuid, status)
    return device


def tell(connection: Connection, kind: EventType, device: Device, moment: dt.datetime, **facts: object) -> None:
    """Tell what operators want of a device."""
    its = {"uuid": device.uuid, "hostname": device.hostname, "address": device.address, "model": device.model}
    announce.device_told(connection, kind, [(device.uuid, {**its, **facts})], moment)


def _found(connection: Connection, uuid: str) -> Device:
    device = store.by_uuid(connection, uuids.canonical(uuid) or "")
    if device is None:
        raise absent.device(uuid)
    return device
