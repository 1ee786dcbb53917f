"""Attributes of deployables: look up, and the operator's own."""

from __future__ import annotations

from sqlalchemy import Connection

from cantle.engine import absent, audit
from cantle.engine.clock import now
from cantle.errors import BadRequest, Conflict
from cantle.model import uuids
from cantle.model.audit import Thing
from cantle.model.deployable import Attribute
from cantle.model.identity import Identity
from cantle.model.page import Page
from cantle.store import attribute as store
from cantle.store.database import Database


def list_attributes(
    db: Database, *, deployable_id: int | None = None, key: str | None = None, page: Page | None = None
) -> list[Attribute]:
    """Attributes, of one deployable and with one key if so asked.

    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    """
    with db.read() as connection:
        return store.listed(connection, deployable_id, key, page)


def get_attribute(db: Database, uuid: str) -> Attribute:
    """One attribute.

    :raises NotFound: ``attribute-not-found``, also for what is no uuid.
    """
    with db.read() as connection:
        return _found(connection, uuid)


def create_attribute(db: Database, who: Identity, *, deployable_id: object, key: object, value: object) -> Attribute:
    """Write an attribute of the operator's. It outlives the host's reports, and no report overwrites it.

    :raises BadRequest: ``bad-attribute``.
    :raises NotFound: ``deployable-not-found``.
    :raises Conflict: ``attribute-exists``: the deployable has that key already.
    """
    if isinstance(deployable_id, bool) or not isinstance(deployable_id, int):
        raise BadRequest("bad-attribute", f"deployable_id is {deployable_id!r}; give the number of a deployable.")
    if not isinstance(key, str) or not 1 <= len(key) <= 255:
        raise BadRequest("bad-attribute", "key is not a text of 1 to 255 characters.")
    if not isinstance(value, str) or len(value) > 4096:
        raise BadRequest("bad-attribute", "value is not a text of at most 4096 characters.")
    number, name, text = deployable_id, key, value

    def work(connection: Connection) -> Attribute:
        standing = store.standing(connection, number, name)
        if standing is None:
            raise absent.deployable_number(number)
        if standing.uuid is not None:
            raise Conflict(
                "attribute-exists", f"Deployable {number} has an attribute {name} already; delete that first.", key=name
            )
        values = {
            "uuid": uuids.new(),
            "deployable_id": number,
            "key": name,
            "value": text,
            "operator": True,
            "created_at": now(),
        }
        about = Thing(facts={"uuid": str(values["uuid"]), "deployable": str(number), "key": name, "value": text[:1000]})
        audit.record(connection, who, "attribute.create", about)
        return store.add(connection, values)

    made = db.run(work)
    audit.note(who, "attribute.create", made.uuid, name)
    return made


def delete_attribute(db: Database, who: Identity, uuid: str) -> None:
    """Delete an attribute of the operator's.

    :raises NotFound: ``attribute-not-found``.
    :raises Conflict: ``attribute-reported``: it comes from the host and would be back with the next report.
    """

    def work(connection: Connection) -> None:
        attribute = _found(connection, uuid)
        if not attribute.operator:
            raise Conflict(
                "attribute-reported", f"The attribute {attribute.key} is what the host reports; it cannot be deleted."
            )
        store.remove(connection, attribute.id)
        audit.record(connection, who, "attribute.delete", Thing(facts={"uuid": attribute.uuid, "key": attribute.key}))

    db.run(work)
    audit.note(who, "attribute.delete", uuid)


def _found(connection: Connection, uuid: str) -> Attribute:
    attribute = store.by_uuid(connection, uuids.canonical(uuid) or "")
    if attribute is None:
        raise absent.attribute(uuid)
    return attribute
