"""What the audit log says of units: lent, held, cleaned, back. Lines are made from the rows of `cantle.store.claim`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cantle.engine import audit
from cantle.model.audit import UNIT_FAILED, UNIT_LENT, UNIT_RETURNED, Thing
from cantle.model.identity import Identity
from cantle.store.types import Record

#: Characters of one fact.
LONGEST = 1000


def lent(row: Record, hostname: str) -> dict[str, Any]:
    """The host has the unit ready, or could not make it so; by whoever asked for it."""
    return audit.line(_asker(row, hostname), UNIT_LENT, thing(row, hostname))


def failed(row: Record, hostname: str, code: str | None, why: str | None) -> dict[str, Any]:
    """The host could not make the unit ready."""
    return audit.line(_asker(row, hostname), UNIT_FAILED, thing(row, hostname, _why(code, why)))


def ending(row: Record, hostname: str, action: str, code: str | None = None, why: str | None = None) -> dict[str, Any]:
    """How far the host is with taking a unit back."""
    return audit.line(_ender(row, hostname), action, thing(row, hostname, _why(code, why)))


def returned(row: Record, hostname: str, facts: Mapping[str, str]) -> dict[str, Any]:
    """Nobody holds the unit any more and it can be lent again.

    :param facts: what was done to clean it.
    """
    return audit.line(_ender(row, hostname), UNIT_RETURNED, thing(row, hostname, facts)) | {"since": row.lent_at}


def thing(row: Record, hostname: str, facts: Mapping[str, str] | None = None) -> Thing:
    """The unit of a claim."""
    return Thing(
        owner_id=row.owner_id,
        hostname=hostname,
        device=row.device,
        unit_uuid=row.uuid,
        resource_class=row.resource_class,
        lease_uuid=row.lease_uuid,
        arq_uuid=row.arq_uuid,
        instance_uuid=row.instance_uuid,
        facts={name: text[:LONGEST] for name, text in (facts or {}).items()},
    )


def _asker(row: Record, hostname: str) -> Identity:
    """Who asked for a unit."""
    return Identity(row.lent_by or f"host:{hostname}", None, request_id=row.lent_request or "")


def _ender(row: Record, hostname: str) -> Identity:
    """Who gave a unit back; its host where nobody did."""
    return Identity(row.ended_by or f"host:{hostname}", None, request_id=row.ended_request or "")


def _why(code: str | None, why: str | None) -> dict[str, str]:
    return {name: text for name, text in (("code", code), ("reason", why)) if text}
