"""A device is better or worse than its host said before: recorded and told."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from cantle.engine import announce, audit
from cantle.model.audit import Thing
from cantle.model.event import EventType
from cantle.model.identity import Identity
from cantle.store.types import Record

_log = logging.getLogger(__name__)

#: Characters of a reason.
LONGEST = 1000


@dataclass(frozen=True, slots=True)
class DeviceTurn:
    """``row`` is the device as it was before."""

    row: Record
    health: str
    reason: str | None


def tell(connection: Connection, hostname: str, turns: Sequence[DeviceTurn], moment: dt.datetime) -> None:
    """Nothing is written where nothing turned."""
    things, bodies = [], []
    for one in turns:
        reason = (one.reason or "")[:LONGEST]
        facts = {"was": one.row.health, "health": one.health, **({"reason": reason} if reason else {})}
        things.append(Thing(hostname=hostname, device=one.row.address, facts=facts))
        body = {"uuid": one.row.uuid, "hostname": hostname, "address": one.row.address, "model": one.row.model}
        bodies.append((one.row.uuid, {**body, **facts, "reason": reason or None}))
    if turns:
        audit.record(connection, Identity(f"host:{hostname}", None), "device.health", *things)
        announce.device_told(connection, EventType.DEVICE_HEALTH, bodies, moment)


def log(hostname: str, turns: Sequence[DeviceTurn]) -> None:
    """A line for each, once it is committed."""
    for one in turns:
        why = f": {one.reason}" if one.reason else ""
        _log.warning("device %s of %s is %s (was %s)%s", one.row.address, hostname, one.health, one.row.health, why)
