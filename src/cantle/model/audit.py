"""The audit log: who did what to which thing, when. Records are written with the change they tell of, and never changed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

#: Actions that others count on: usage, `cantle who`, the state of a unit's last cleaning. All others are told in docs/leases.md.
UNIT_LENT = "unit.lent"
UNIT_FAILED = "unit.failed"
UNIT_HELD = "unit.not-back"
UNIT_CLEANING = "unit.cleaning"
UNIT_QUARANTINED = "unit.quarantined"
UNIT_RETURNED = "unit.returned"
UNIT_FORCED = "unit.forced"
PURGED = "audit.purge"
REAPED = "arq.reap"
LEASE_PURGED = "lease.purge"


@dataclass(frozen=True, slots=True)
class Thing:
    """What something was done to, as far as it has these names.

    :param owner_id: the project whose thing it is.
    :param device: the address of the card on its host.
    :param since: of a unit that is back: when it was lent.
    :param facts: what else there is to say, in words by name.
    """

    owner_id: str | None = None
    hostname: str | None = None
    device: str | None = None
    unit_uuid: str | None = None
    resource_class: str | None = None
    lease_uuid: str | None = None
    arq_uuid: str | None = None
    instance_uuid: str | None = None
    since: dt.datetime | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the log. ``user_id``, ``project_id``, ``token_uuid`` and ``request_id`` are those of whoever did it."""

    id: int
    uuid: str
    created_at: dt.datetime
    action: str
    user_id: str
    project_id: str | None
    token_uuid: str | None
    request_id: str | None
    owner_id: str | None
    hostname: str | None
    device: str | None
    unit_uuid: str | None
    resource_class: str | None
    lease_uuid: str | None
    arq_uuid: str | None
    instance_uuid: str | None
    since: dt.datetime | None
    facts: Mapping[str, str]
