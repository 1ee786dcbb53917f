"""A lease: all the ARQs of one workload, with an owner and an optional end. Ours, above the accelerator API."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum

from cantle.model.arq import Arq


class LeaseState(StrEnum):
    """Where a loan is, read off its ARQs and claims."""

    PENDING = "pending"
    """Units are claimed and the host is making them ready; the host's result leaves it."""
    ACTIVE = "active"
    """Every unit is ready; a release leaves it."""
    FAILED = "failed"
    """At least one unit could not be made ready, the reason is on its ARQ; a release leaves it."""
    RELEASING = "releasing"
    """The owner gave it back and a host still takes units back; the host's result leaves it."""
    RELEASED = "released"
    """All units are back; nothing leaves it."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A loan as the server remembers it."""

    id: int
    uuid: str
    state: LeaseState
    profile_name: str
    project_id: str | None
    owner: str
    workload: str
    hostname: str
    created_at: dt.datetime
    updated_at: dt.datetime | None = None
    expires_at: dt.datetime | None = None
    arqs: tuple[Arq, ...] = ()
