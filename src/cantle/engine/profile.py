"""Device profiles: make, look up, delete."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from cantle.engine import absent, audit, idempotency
from cantle.engine.clock import now
from cantle.errors import BadRequest, Conflict
from cantle.model import request, uuids
from cantle.model.audit import Thing
from cantle.model.identity import Identity
from cantle.model.page import Page
from cantle.model.profile import DeviceProfile, check_groups, check_name, units
from cantle.store import profile as store
from cantle.store.database import Database

#: Longest description that is kept.
MAX_DESCRIPTION = 2000


def create_profile(
    db: Database,
    who: Identity,
    *,
    name: object,
    groups: object,
    description: object = None,
    uuid: object = None,
    once: idempotency.Once[DeviceProfile] | None = None,
) -> DeviceProfile:
    """Make a profile. Values may be as they came over the wire: all of them are checked here, also those of ``accel:`` keys that are ours:
    they count at a lease, when whoever made the profile is not there.

    :param once: see `cantle.engine.idempotency.run`, with what that raises.
    :raises BadRequest: ``bad-profile-name``, ``bad-profile-groups``, ``bad-extra-spec``, ``bad-profile-description``, ``bad-uuid``.
    :raises Conflict: ``profile-name-taken``, ``profile-uuid-taken``.
    """
    checked = check_groups(groups)
    request.of_profile(checked)
    values = {
        "uuid": uuids.new() if uuid is None else uuids.checked(uuid, "uuid"),
        "name": check_name(name),
        "groups": checked,
        "description": check_description(description),
        "created_at": now(),
    }
    classes = sorted({unit.resource_class for unit in units(checked)})
    with_name, with_uuid = str(values["name"]), str(values["uuid"])

    def work(connection: Connection) -> DeviceProfile:
        for standing in store.with_use(connection, [with_name], [with_uuid]):
            if standing.name == with_name:
                what = "flavor" if standing.is_flavor else "device profile"
                raise Conflict(
                    "profile-name-taken",
                    f"A {what} named {with_name} exists already; choose another name.",
                    name=with_name,
                )
            raise Conflict(
                "profile-uuid-taken",
                f"A device profile with the uuid {with_uuid} exists already; leave the uuid out.",
                uuid=with_uuid,
            )
        audit.record(connection, who, "profile.create", Thing(facts={"name": with_name, "uuid": with_uuid}))
        return store.add(connection, values, classes)

    made = idempotency.run(db, work, once)
    audit.note(who, "profile.create", made.uuid, made.name)
    return made


def get_profile(db: Database, ref: str) -> DeviceProfile:
    """The profile with that uuid or name.

    :raises NotFound: ``profile-not-found``.
    """
    uuid = uuids.canonical(ref)
    with db.read() as connection:
        found = store.by_ref(connection, ref, uuid)
    if not found:
        raise absent.profile(ref)
    return next((profile for profile in found if profile.uuid == uuid), found[0])


def list_profiles(db: Database, *, names: Sequence[str] | None = None, page: Page | None = None) -> list[DeviceProfile]:
    """Profiles; with ``names``, those of them that exist.

    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    """
    with db.read() as connection:
        return store.listed(connection, names, page)


def delete_profiles(db: Database, who: Identity, refs: Sequence[str]) -> None:
    """Delete profiles by uuid or name: all of them, or none when one cannot be. A profile named like another's uuid is not meant by it.

    :raises NotFound: ``profile-not-found``, naming those that do not exist.
    :raises Conflict: ``profile-in-use``, naming those an accelerator request was made from.
    """

    def work(connection: Connection) -> None:
        found = store.with_use(connection, refs, [uuid for ref in refs if (uuid := uuids.canonical(ref))])
        rows = [row for row in found if not row.is_flavor]
        by_uuid, by_name = {row.uuid: row for row in rows}, {row.name: row for row in rows}
        meant = {ref: by_uuid.get(uuids.canonical(ref)) or by_name.get(ref) for ref in refs}
        missing = [ref for ref, row in meant.items() if row is None]
        if missing:
            raise absent.profiles(missing)
        going = {row.id: row.name for row in meant.values() if row is not None}
        used = sorted(row.name for row in rows if row.in_use and row.id in going)
        if used:
            raise Conflict(
                "profile-in-use",
                f"Accelerator requests were made from {', '.join(used)}; delete those first.",
                names=used,
            )
        store.remove(connection, list(going))
        audit.record(connection, who, "profile.delete", *(Thing(facts={"name": name}) for name in going.values()))

    db.run(work)
    audit.note(who, "profile.delete", *refs)


def check_description(description: object) -> str | None:
    """A description, if it may be one.

    :raises BadRequest: ``bad-profile-description``.
    """
    if description is None:
        return None
    if not isinstance(description, str) or len(description) > MAX_DESCRIPTION:
        raise BadRequest(
            "bad-profile-description", f"description is not a text of at most {MAX_DESCRIPTION} characters."
        )
    return description
