"""Flavors: make, look up, delete."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from cantle.engine import absent, audit, choice, idempotency
from cantle.engine.clock import now
from cantle.engine.profile import check_description
from cantle.errors import Conflict
from cantle.model import uuids
from cantle.model.alias import Aliases
from cantle.model.audit import Thing
from cantle.model.flavor import Flavor, check_extra_specs, check_name
from cantle.model.identity import Identity
from cantle.model.page import Page
from cantle.store import flavor as store
from cantle.store import profile
from cantle.store.database import Database


def create_flavor(
    db: Database,
    who: Identity,
    *,
    name: object,
    extra_specs: Mapping[str, object],
    aliases: Aliases,
    description: object = None,
    once: idempotency.Once[Flavor] | None = None,
) -> Flavor:
    """Make a flavor. What it asks for is read now, so that a mistake is told now.

    :param aliases: the PCI aliases that it may name.
    :param once: see `cantle.engine.idempotency.run`, with what that raises.
    :raises BadRequest: ``bad-flavor-name``, ``bad-extra-spec``, ``alias-not-defined``, ``bad-profile-description``.
    :raises NotFound: ``profile-not-found``, of the profile it names.
    :raises Conflict: ``profile-name-taken``, by a flavor or a device profile.
    """
    specs = check_extra_specs(extra_specs)
    values = {
        "uuid": uuids.new(),
        "name": check_name(name),
        "extra_specs": specs,
        "description": check_description(description),
        "created_at": now(),
    }
    called = str(values["name"])

    def work(connection: Connection) -> Flavor:
        choice.of_extra_specs(connection, specs, aliases)
        for standing in profile.with_use(connection, [called], []):
            what = "flavor" if standing.is_flavor else "device profile"
            raise Conflict(
                "profile-name-taken", f"A {what} named {called} exists already; choose another name.", name=called
            )
        audit.record(connection, who, "flavor.create", Thing(facts={"name": called, "uuid": str(values["uuid"])}))
        return store.add(connection, values)

    made = idempotency.run(db, work, once)
    audit.note(who, "flavor.create", made.uuid, made.name)
    return made


def get_flavor(db: Database, ref: str) -> Flavor:
    """The flavor with that uuid or name.

    :raises NotFound: ``flavor-not-found``.
    """
    with db.read() as connection:
        found = store.by_ref(connection, ref, uuids.canonical(ref))
    if found is None:
        raise absent.flavor(ref)
    return found


def list_flavors(db: Database, *, name: str | None = None, page: Page | None = None) -> list[Flavor]:
    """Flavors, all or the one of that name.

    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    """
    with db.read() as connection:
        return store.listed(connection, name, page)


def delete_flavor(db: Database, who: Identity, ref: str) -> None:
    """Delete a flavor by uuid or name.

    :raises NotFound: ``flavor-not-found``.
    :raises Conflict: ``flavor-in-use``: a lease that was made from it is not over.
    """

    def work(connection: Connection) -> None:
        found = store.by_ref(connection, ref, uuids.canonical(ref))
        if found is None:
            raise absent.flavor(ref)
        if any(row.in_use for row in profile.with_use(connection, [found.name], [found.uuid]) if row.id == found.id):
            raise Conflict(
                "flavor-in-use", f"Leases were made from {found.name}; release those first.", name=found.name
            )
        store.remove(connection, [found.id])
        audit.record(connection, who, "flavor.delete", Thing(facts={"name": found.name}))

    db.run(work)
    audit.note(who, "flavor.delete", ref)
