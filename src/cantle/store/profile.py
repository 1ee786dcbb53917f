"""Device profiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, exists, insert, or_, select

from cantle.model.page import Page
from cantle.model.profile import DeviceProfile
from cantle.store.paging import window
from cantle.store.prepared import Prepared
from cantle.store.tables import arqs, device_profiles, profile_classes
from cantle.store.types import Record

SORT_KEYS = {
    "created_at": device_profiles.c.created_at,
    "name": device_profiles.c.name,
    "uuid": device_profiles.c.uuid,
}

#: A flavor is kept beside the profiles (`cantle.store.flavor`) and is none.
_IS_FLAVOR = device_profiles.c.extra_specs.is_not(None)
_PROFILES = select(device_profiles).where(~_IS_FLAVOR)
_BY_NAME = Prepared(_PROFILES.where(device_profiles.c.name == bindparam("name")))
_BY_REF = _PROFILES.where(or_(device_profiles.c.uuid == bindparam("uuid"), device_profiles.c.name == bindparam("ref")))
_IN_USE = exists().where(arqs.c.profile_id == device_profiles.c.id).label("in_use")
_BY_REFS = select(
    device_profiles.c.id, device_profiles.c.uuid, device_profiles.c.name, _IS_FLAVOR.label("is_flavor"), _IN_USE
).where(
    or_(
        device_profiles.c.uuid.in_(bindparam("uuids", expanding=True)),
        device_profiles.c.name.in_(bindparam("refs", expanding=True)),
    )
)


def by_name(connection: Connection, name: str) -> DeviceProfile | None:
    """The profile of that name."""
    row = _BY_NAME.first(connection, {"name": name})
    return None if row is None else profile(row)


def by_ref(connection: Connection, ref: str, uuid: str | None) -> list[DeviceProfile]:
    """Profiles with that name or that uuid: at most two, if one is named as another's uuid."""
    return [profile(row) for row in connection.execute(_BY_REF, {"uuid": uuid or "", "ref": ref})]


def with_use(connection: Connection, refs: Sequence[str], uuids: Sequence[str]) -> Sequence[Record]:
    """id, uuid, name, is_flavor, in_use of the profiles and flavors with one of these names or uuids."""
    return connection.execute(_BY_REFS, {"refs": list(refs), "uuids": list(uuids)}).all()


def listed(connection: Connection, names: Sequence[str] | None, page: Page | None) -> list[DeviceProfile]:
    """Profiles, all or those with one of the names."""
    query = _PROFILES
    if names is not None:
        query = query.where(device_profiles.c.name.in_(list(names)))
    return [profile(row) for row in connection.execute(window(connection, query, page, device_profiles, SORT_KEYS))]


def add(connection: Connection, values: dict[str, Any], classes: Sequence[str]) -> DeviceProfile:
    """A new profile."""
    number = connection.execute(insert(device_profiles), values).inserted_primary_key
    assert number is not None  # noqa: S101 - every row has one
    connection.execute(insert(profile_classes), [{"profile_id": number[0], "resource_class": name} for name in classes])
    return DeviceProfile(id=number[0], **values)


def remove(connection: Connection, ids: Sequence[int]) -> None:
    """Delete profiles."""
    connection.execute(delete(device_profiles).where(device_profiles.c.id.in_(list(ids))))


def profile(row: Record) -> DeviceProfile:
    """The value of a row that has the table's columns."""
    return DeviceProfile(
        id=row.id,
        uuid=row.uuid,
        name=row.name,
        groups=row.groups,
        created_at=row.created_at,
        updated_at=row.updated_at,
        description=row.description,
    )
