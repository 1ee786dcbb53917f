"""Whether anything may be lent of a device now: one rule for choosing, binding, lists and the claim itself."""

from __future__ import annotations

from sqlalchemy import ColumnElement, FromClause, and_, func

from cantle.model.device import LENDABLE, DeviceStatus, Health
from cantle.model.intent import Intent, IntentStatus
from cantle.store.host import UP
from cantle.store.tables import devices, hosts, intents
from cantle.store.types import Record

#: The latest wish for a device; 0 when there never was one.
_WISHED: ColumnElement[int] = func.coalesce(intents.c.version, 0)

#: What says how far a host has followed the wish for a device.
INTENT = (
    devices.c.intent_version,
    devices.c.intent_tried,
    devices.c.intent_code,
    devices.c.intent_error,
    intents.c.intent,
    _WISHED.label("wished_version"),
)

#: What decides whether something may be lent of a device. Select it from something that `with_intents` was given.
SERVICE = (
    devices.c.uuid.label("device_uuid"),
    devices.c.address.label("device_address"),
    devices.c.health,
    devices.c.status,
    devices.c.reason.label("device_reason"),
    hosts.c.hostname,
    UP.label("up"),
    hosts.c.drained_at,
    hosts.c.frozen_at,
    *INTENT,
)

#: In SQL, for the statement that claims: the host has followed the latest wish. Whoever sets one locks the host first, as whoever
#: claims does, so that a claim sees every wish that came before it.
FOLLOWED: ColumnElement[bool] = devices.c.intent_version == _WISHED

#: The same of a host: nobody has closed it. Whoever closes one changes its row.
OPEN: ColumnElement[bool] = and_(hosts.c.drained_at.is_(None), hosts.c.frozen_at.is_(None))

#: The same of a device: nobody has taken it out of service, and it is well. Whoever takes one out locks the host first.
LENDABLE_NOW: ColumnElement[bool] = and_(
    devices.c.status == DeviceStatus.ENABLED, devices.c.health.in_(sorted(LENDABLE))
)

#: What `out_of_service` says nothing about: something may be lent of it.
IN_SERVICE: ColumnElement[bool] = and_(
    LENDABLE_NOW,
    UP,
    OPEN,
    FOLLOWED,
)


def with_intents(places: FromClause) -> FromClause:
    """A join that has ``devices``, with the wish for each."""
    return places.outerjoin(intents, intents.c.device_id == devices.c.id)


def why_not(row: Record) -> str | None:
    """Why nothing may be lent of it now, in words; None when it is in service. The row has what `SERVICE` has."""
    if row.status != DeviceStatus.ENABLED:
        return f"{row.device_address} is in maintenance"
    if row.health not in LENDABLE:
        return f"{row.device_address} is {row.health}" + (f": {row.device_reason}" if row.device_reason else "")
    if (closed := _closed(row)) is not None:
        return f"{row.hostname} is {closed[1]}"
    if row.intent_version != row.wished_version:
        return intent_status(row).why_not(row.device_address)
    return None


def remark(row: Record) -> str | None:
    """The same as `why_not`, or what the host says of a device that is in service and not well."""
    return why_not(row) or (row.device_reason if row.health == Health.DEGRADED else None)


def out_of_service(row: Record) -> tuple[str, str] | None:
    """The same as `why_not`, as a code and words that are the same for all devices of which it is so, for those who count them."""
    if row.status != DeviceStatus.ENABLED:
        return "in-maintenance", "is in maintenance"
    if row.health not in LENDABLE:
        return "not-healthy", f"is {row.health}" + (f": {row.device_reason}" if row.device_reason else "")
    if (closed := _closed(row)) is not None:
        return closed[0], f"is on a host that is {closed[1]}"
    if row.intent_version != row.wished_version:
        return "intent-open", (intent_status(row).why_not("") or "").strip()
    return None


def _closed(row: Record) -> tuple[str, str] | None:
    if not row.up:
        return "host-down", "down"
    if row.frozen_at is not None:
        return "host-frozen", "frozen until a person confirms what it has"
    return None if row.drained_at is None else ("host-drained", "drained")


def intent_status(row: Record) -> IntentStatus:
    """The latest wish and how far its host has followed. The row has what `INTENT` has."""
    return IntentStatus(
        intent=None if row.intent is None else Intent.loads(row.intent),
        version=row.wished_version,
        applied=row.intent_version,
        tried=row.intent_tried,
        code=row.intent_code,
        error=row.intent_error,
    )
