"""``/v2/device_profiles``: a flavor for devices (spec S3.3)."""

from __future__ import annotations

from typing import Any

import msgspec

from cantle.api import microversion
from cantle.api.call import Call
from cantle.api.query import PageQuery
from cantle.api.v2.resource import Link, next_links, page, self_link, stamp
from cantle.engine import profile as engine
from cantle.errors import BadRequest
from cantle.model.profile import DeviceProfile
from cantle.model.uuids import canonical, checked

OWNER_TRAIT = "trait:OWNER_CYBORG"


class DeviceProfileQuery(PageQuery, frozen=True, kw_only=True):
    """``name``: names to show, separated by commas."""

    name: str | None = None


class DeleteQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``value``: names or uuids to delete, separated by commas."""

    value: str | None = None


class NewDeviceProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client sends; a number given as a group's value is taken as text."""

    name: str
    groups: list[dict[str, Any]]
    description: str | None = None
    uuid: str | None = None


class Shape(msgspec.Struct, frozen=True):
    """A profile on the wire. Key order as Cyborg's."""

    uuid: str
    name: str
    description: str | None
    groups: list[dict[str, str]]
    created_at: str | None
    updated_at: str | None
    links: list[Link]


class Single(msgspec.Struct, frozen=True):
    """A profile by itself: in Cyborg its keys are in another order than in a list."""

    name: str
    description: str | None
    uuid: str
    groups: list[dict[str, str]]
    created_at: str | None
    updated_at: str | None
    links: list[Link]


class Shown(msgspec.Struct, frozen=True):
    """The one wrapped resource of this API."""

    device_profile: Single


class Listed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A list of profiles."""

    device_profiles: list[Shape]
    device_profiles_links: list[Link] = []


def list_all(call: Call) -> Listed:
    """Profiles, of the names asked for if any are; names nobody has are left out."""
    asked: DeviceProfileQuery = call.query
    names = None if asked.name is None else [name for name in asked.name.split(",") if name]
    limits = page(call)
    found = engine.list_profiles(call.db, names=names, page=limits)
    return Listed([_shape(call, profile) for profile in found], next_links(call, limits.limit, found))


def show(call: Call) -> Shown:
    """One profile by uuid, or from 2.2 on by name."""
    ref = call.params["ref"]
    if canonical(ref) is None:
        microversion.needed(call.minor, microversion.PROFILE_BY_NAME, "Showing a device profile by name")
    one = _shape(call, engine.get_profile(call.db, ref))
    return Shown(
        Single(one.name, one.description, one.uuid, one.groups, one.created_at, one.updated_at, one.links),
    )


def create(call: Call) -> Shape:
    """A new profile from a list with exactly one object."""
    sent: list[NewDeviceProfile] = call.body
    if len(sent) != 1:
        raise BadRequest(
            "one-profile-at-a-time", f"The body lists {len(sent)} device profiles; send a list of exactly one."
        )
    new = sent[0]
    profile = engine.create_profile(
        call.db,
        call.who,
        name=new.name,
        groups=new.groups,
        description=new.description,
        uuid=None if new.uuid is None else checked(new.uuid, "The profile's uuid"),
    )
    return _shape(call, profile)


def delete_one(call: Call) -> None:
    """Delete one by uuid or name; or several, separated by commas, as in Cyborg."""
    _delete(call, call.params["ref"])


def delete_listed(call: Call) -> None:
    """Delete those named in ``value``."""
    asked: DeleteQuery = call.query
    _delete(call, asked.value or "")


def _delete(call: Call, listed: str) -> None:
    refs = [ref for ref in listed.split(",") if ref]
    if not refs:
        raise BadRequest(
            "value-missing", "Say which device profiles: '?value=name1,name2', or a name or uuid in the path."
        )
    engine.delete_profiles(call.db, call.who, refs)


def _shape(call: Call, profile: DeviceProfile) -> Shape:
    return Shape(
        uuid=profile.uuid,
        name=profile.name,
        description=profile.description,
        groups=_groups(call, profile),
        created_at=stamp(profile.created_at),
        updated_at=stamp(profile.updated_at),
        links=self_link(call, "device_profiles", profile.uuid),
    )


def _groups(call: Call, profile: DeviceProfile) -> list[dict[str, str]]:
    """The groups; for a service, with our owner's trait required, so that Nova places them on providers of ours only.

    Nova asks for the groups with a service token; people see what was stored.
    """
    if not (call.site.settings.require_owner_trait and call.who.is_service):
        return list(profile.groups)
    return [{**group, OWNER_TRAIT: "required"} if _asks_resources(group) else group for group in profile.groups]


def _asks_resources(group: dict[str, str]) -> bool:
    return any(key.startswith("resources:") for key in group)
