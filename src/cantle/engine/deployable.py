"""Deployables: look up; programming, which no device of ours can do."""

from __future__ import annotations

from typing import NoReturn

from cantle.engine import absent, audit
from cantle.errors import Conflict
from cantle.model import uuids
from cantle.model.deployable import Deployable
from cantle.model.identity import Identity
from cantle.model.page import Page
from cantle.store import deployable as store
from cantle.store.database import Database


def list_deployables(db: Database, *, page: Page | None = None, **where: str | None) -> list[Deployable]:
    """Deployables whose values are exactly these: hostname, device_uuid, resource_class.

    :param where: values by those names; None says nothing.
    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    """
    with db.read() as connection:
        return store.listed(connection, where, page)


def get_deployable(db: Database, uuid: str) -> Deployable:
    """One deployable.

    :raises BadRequest: ``bad-uuid``.
    :raises NotFound: ``deployable-not-found``.
    """
    wanted = uuids.checked(uuid, "deployable uuid")
    with db.read() as connection:
        found = store.by_uuid(connection, wanted)
    if found is None:
        raise absent.deployable(uuid)
    return found


def program(db: Database, who: Identity, uuid: str) -> NoReturn:
    """Refuse to program a deployable: none of the devices Cantle lends takes a bitstream (spec S3.11).

    :raises BadRequest: ``bad-uuid``.
    :raises NotFound: ``deployable-not-found``.
    :raises Conflict: ``device-not-programmable``.
    """
    deployable = get_deployable(db, uuid)
    audit.note(who, "deployable.program refused", deployable.uuid)
    raise Conflict(
        "device-not-programmable",
        f"{deployable.name} ({deployable.resource_class}, driver {deployable.driver_name}) cannot be programmed.",
        uuid=deployable.uuid,
    )
