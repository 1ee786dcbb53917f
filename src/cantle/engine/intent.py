"""Intents: what an operator wants a device to be, set and cleared. Its host follows; until it has said so nothing of the device is lent."""

from __future__ import annotations

import dataclasses

from sqlalchemy import Connection

from cantle.engine import absent, audit, mode_check
from cantle.engine.clock import now
from cantle.engine.device import device_at, tell
from cantle.errors import PreconditionFailed, PreconditionRequired
from cantle.model.audit import Thing
from cantle.model.device import Device
from cantle.model.event import EventType
from cantle.model.identity import Identity
from cantle.model.intent import Intent
from cantle.model.precondition import Precondition
from cantle.store import host
from cantle.store import intent as store
from cantle.store.database import Database, host_topic, report_topic, wake


def get_intent(db: Database, hostname: str, address: str) -> Device:
    """The device, for which there is an intent.

    :raises NotFound: ``host-not-found``, ``device-not-found``, ``intent-not-found``.
    """
    with db.read() as connection:
        device = device_at(connection, hostname, address)
    if device.intent.intent is None:
        raise absent.intent(device.hostname, device.address)
    return device


def set_intent(
    db: Database, who: Identity, hostname: str, intent: Intent, *, precondition: Precondition | None = None
) -> Device:
    """Want ``intent.device`` of a host to be something, in the place of what was wanted before. Each time is a new version, also of the
    same wish. A device that is missing, or whose host is down, can be wished for too: the wish is carried out when it is back.

    :param intent: without ``hardware`` it is for the card that is at the address now. Its version is not looked at.
    :param precondition: which intent is replaced: its `Intent.etag`. May be left out where there is none.
    :returns: the device, with the intent as it is stored.
    :raises NotFound: ``host-not-found``, ``device-not-found``.
    :raises Conflict: ``mode-not-possible``, ``other-hardware``, ``device-in-use``; details name modes, types, leases, instances.
    :raises PreconditionRequired: ``precondition-needed``.
    :raises PreconditionFailed: ``intent-changed``.
    """

    def work(connection: Connection) -> Device:
        device = _locked(connection, hostname, intent.device)
        if (objection := mode_check.impossible(device, intent)) is not None:
            raise objection
        _check_free(connection, device, precondition)
        hardware = intent.hardware or mode_check.hardware(device)
        wish = dataclasses.replace(intent, hardware=hardware, version=device.intent.next_version)
        return _wish(connection, who, device, wish)

    device = db.run(work)
    audit.note(who, "intent.set", f"{hostname}/{device.address}", intent.mode, f"version {device.intent.version}")
    return device


def clear_intent(
    db: Database, who: Identity, hostname: str, address: str, *, precondition: Precondition | None = None
) -> Device:
    """Want nothing of a device any more: what its host's configuration says holds again. Its host follows that as it does a wish.

    :raises NotFound: ``host-not-found``, ``device-not-found``, ``intent-not-found``.
    :raises Conflict: ``device-in-use``.
    :raises PreconditionRequired: ``precondition-needed``.
    :raises PreconditionFailed: ``intent-changed``.
    """

    def work(connection: Connection) -> Device:
        device = _locked(connection, hostname, address)
        if device.intent.intent is None:
            raise absent.intent(device.hostname, device.address)
        _check_free(connection, device, precondition)
        return _wish(connection, who, device, None)

    device = db.run(work)
    audit.note(who, "intent.clear", f"{hostname}/{device.address}", f"version {device.intent.version}")
    return device


def _locked(connection: Connection, hostname: str, address: str) -> Device:
    """The device, with its host locked: whoever claims of it waits, and has to look again."""
    if not host.lock_named(connection, hostname):
        raise absent.host(hostname)
    return device_at(connection, hostname, address)


def _check_free(connection: Connection, device: Device, precondition: Precondition | None) -> None:
    """Nobody holds anything of it, and it is as the caller has seen it. In this order: a precondition counts only for what would be done
    (RFC 9110, section 13.2.1)."""
    if (objection := mode_check.in_use(connection, device)) is not None:
        raise objection
    current = device.intent.intent
    etag = None if current is None else current.etag
    asked = precondition or Precondition()
    if not asked.holds(etag):
        there = f"is {current.mode} in version {current.version}" if current is not None else "does not exist"
        raise PreconditionFailed(
            "intent-changed",
            f"The intent for {device.address} of {device.hostname} {there}, which is not what you had seen. Look again.",
            etag=etag,
        )
    if not asked.looked(etag):
        raise PreconditionRequired(
            "precondition-needed",
            f"There is an intent for {device.address} of {device.hostname}. Send If-Match with its ETag, {etag}, to change it.",
            etag=etag,
        )


def _wish(connection: Connection, who: Identity, device: Device, wish: Intent | None) -> Device:
    """Store the next version, and tell the host."""
    put = store.add if device.intent.version == 0 else store.replace
    text = None if wish is None else wish.dumps()
    moment, version = now(), device.intent.next_version
    put(connection, device.id, version=version, text=text, set_by=who.user_id, now=moment)
    facts = {"version": str(version), **({} if text is None else {"intent": text})}
    about = Thing(hostname=device.hostname, device=device.address, facts=facts)
    audit.record(connection, who, "intent.clear" if wish is None else "intent.set", about)
    mode = None if wish is None else wish.mode
    tell(connection, EventType.DEVICE_INTENT, device, moment, mode=mode, version=version, by=who.user_id)
    wake(connection, host_topic(device.hostname))
    wake(connection, report_topic(device.hostname))
    return device_at(connection, device.hostname, device.address)
