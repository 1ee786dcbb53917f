"""An answer to "who has this?" and "what has he?", whichever end the question begins at."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from cantle.model.audit import Record


@dataclass(frozen=True, slots=True)
class Holding:
    """One unit and who has it.

    :param state: ``lent``, or how far its host is with taking it back: ``releasing``, ``cleaning``, ``quarantined``.
    :param reason: why it is not back yet; who holds it.
    :param since: when it was claimed.
    :param guest: that Cantle put it into: ``lxc:c1``.
    :param by: who asked for it.
    """

    hostname: str
    device: str
    model: str
    unit_uuid: str
    attach_type: str
    resource_class: str
    state: str
    reason: str | None
    project_id: str | None
    by: str | None
    since: dt.datetime | None
    arq_uuid: str | None
    instance_uuid: str | None
    lease_uuid: str | None
    workload: str | None
    guest: str | None
    expires_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is so now, and what was done lately, the latest first."""

    now: tuple[Holding, ...]
    past: tuple[Record, ...]
