"""Device profiles: "a flavor for devices". A list of request groups with ``resources:``, ``trait:`` and ``accel:`` keys (spec S3.3)."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """A profile as the server remembers it; immutable once made. Group values are strings (contract section 1.5)."""

    id: int
    uuid: str
    name: str
    groups: tuple[dict[str, str], ...]
    created_at: dt.datetime
    updated_at: dt.datetime | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """One accelerator asked for by a group: N groups of M make N·M units, each becoming one ARQ (spec S3.4)."""

    group_id: int
    resource_class: str
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
