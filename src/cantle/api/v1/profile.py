"""``/v1/profiles``: device profiles, in plain words. They are the same as those of ``/v2/device_profiles``."""

from __future__ import annotations

from typing import Any

import msgspec

from cantle.api.call import Call
from cantle.api.v1 import collection
from cantle.api.v2.resource import Link, stamp
from cantle.engine import profile as engine
from cantle.model.profile import DeviceProfile


class ProfileQuery(collection.CollectionQuery, frozen=True, kw_only=True):
    """``name``: only the profile of that name."""

    name: str | None = None


class NewProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client sends; a number given as a group's value is taken as text."""

    name: str
    groups: list[dict[str, Any]]
    description: str | None = None


class Shape(msgspec.Struct, frozen=True):
    """A profile on the wire; the words are those of :class:`cantle.model.profile.DeviceProfile`."""

    uuid: str
    name: str
    description: str | None
    groups: list[dict[str, str]]
    created_at: str | None
    updated_at: str | None


class Listed(msgspec.Struct, frozen=True):
    """A list of profiles."""

    profiles: list[Shape]
    profiles_links: list[Link] = []


def list_all(call: Call) -> dict[str, Any]:
    """Profiles, in the order they were made unless the query says otherwise."""
    asked: ProfileQuery = call.query
    limits = collection.page(call)
    found = engine.list_profiles(call.db, names=None if asked.name is None else [asked.name], page=limits)
    return collection.answer(call, "profiles", limits, found, _shape, kind=Shape, marker=lambda profile: profile.uuid)


def show(call: Call) -> Shape:
    """One profile by name or uuid."""
    return _shape(engine.get_profile(call.db, call.params["ref"]))


def create(call: Call) -> Shape:
    """A new profile."""
    new: NewProfile = call.body
    made = engine.create_profile(
        call.db,
        call.who,
        name=new.name,
        groups=new.groups,
        description=new.description,
        once=call.once(_shape),
    )
    return _shape(made)


def delete(call: Call) -> None:
    """Delete one by name or uuid."""
    engine.delete_profiles(call.db, call.who, [call.params["ref"]])


def _shape(profile: DeviceProfile) -> Shape:
    return Shape(
        uuid=profile.uuid,
        name=profile.name,
        description=profile.description,
        groups=list(profile.groups),
        created_at=stamp(profile.created_at),
        updated_at=stamp(profile.updated_at),
    )
