"""What can be asked for by name: device profiles and flavors."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select

from cantle.store.tables import device_profiles
from cantle.store.types import Record

_ASKED_FOR = select(
    device_profiles.c.id, device_profiles.c.name, device_profiles.c.groups, device_profiles.c.extra_specs
).order_by(device_profiles.c.name)


def asked_for(connection: Connection, name: str | None) -> Sequence[Record]:
    """id, name, groups, extra_specs (None of a profile) of all profiles and flavors, or of that one, by name."""
    query = _ASKED_FOR if name is None else _ASKED_FOR.where(device_profiles.c.name == name)
    return connection.execute(query).all()
