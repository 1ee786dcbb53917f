"""Flavors. They are kept beside the device profiles, in one table: both are named where something is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, insert, or_, select

from cantle.model.flavor import Flavor
from cantle.model.page import Page
from cantle.store.paging import window
from cantle.store.tables import device_profiles
from cantle.store.types import Record

SORT_KEYS = {
    "created_at": device_profiles.c.created_at,
    "name": device_profiles.c.name,
    "uuid": device_profiles.c.uuid,
}

_FLAVORS = select(device_profiles).where(device_profiles.c.extra_specs.is_not(None))
_BY_REF = _FLAVORS.where(or_(device_profiles.c.uuid == bindparam("uuid"), device_profiles.c.name == bindparam("ref")))


def by_ref(connection: Connection, ref: str, uuid: str | None) -> Flavor | None:
    """The flavor with that uuid, else with that name."""
    found = [_flavor(row) for row in connection.execute(_BY_REF, {"uuid": uuid or "", "ref": ref})]
    return next((flavor for flavor in found if flavor.uuid == uuid), found[0] if found else None)


def listed(connection: Connection, name: str | None, page: Page | None) -> list[Flavor]:
    """Flavors, all or the one of that name."""
    query: Select[Any] = _FLAVORS if name is None else _FLAVORS.where(device_profiles.c.name == name)
    return [_flavor(row) for row in connection.execute(window(connection, query, page, device_profiles, SORT_KEYS))]


def add(connection: Connection, values: dict[str, Any]) -> Flavor:
    """A new flavor."""
    number = connection.execute(insert(device_profiles), {**values, "groups": ()}).inserted_primary_key
    assert number is not None  # noqa: S101 - every row has one
    return Flavor(id=number[0], **values)


def remove(connection: Connection, ids: Sequence[int]) -> None:
    """Delete flavors."""
    connection.execute(delete(device_profiles).where(device_profiles.c.id.in_(list(ids))))


def _flavor(row: Record) -> Flavor:
    return Flavor(
        id=row.id,
        uuid=row.uuid,
        name=row.name,
        extra_specs=row.extra_specs,
        created_at=row.created_at,
        description=row.description,
    )
