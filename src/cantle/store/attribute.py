"""Attributes of deployables."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, insert, select

from cantle.model.deployable import Attribute
from cantle.model.page import Page
from cantle.store.paging import window
from cantle.store.tables import attributes, deployables
from cantle.store.types import Record

SORT_KEYS = {"created_at": attributes.c.created_at, "key": attributes.c.key, "uuid": attributes.c.uuid}


def by_uuid(connection: Connection, uuid: str) -> Attribute | None:
    """One attribute."""
    row = connection.execute(select(attributes).where(attributes.c.uuid == uuid)).first()
    return None if row is None else attribute(row)


def listed(connection: Connection, deployable_id: int | None, key: str | None, page: Page | None) -> list[Attribute]:
    """Attributes, of one deployable and with one key if so asked."""
    query = select(attributes)
    if deployable_id is not None:
        query = query.where(attributes.c.deployable_id == deployable_id)
    if key is not None:
        query = query.where(attributes.c.key == key)
    return [attribute(row) for row in connection.execute(window(connection, query, page, attributes, SORT_KEYS))]


def standing(connection: Connection, deployable_id: int, key: str) -> Record | None:
    """``deployable_id`` and, if the deployable has that key already, ``uuid``; None when there is no such deployable."""
    joined = deployables.outerjoin(
        attributes, (attributes.c.deployable_id == deployables.c.id) & (attributes.c.key == key)
    )
    query = select(deployables.c.id, attributes.c.uuid).select_from(joined).where(deployables.c.id == deployable_id)
    return connection.execute(query).first()


def add(connection: Connection, values: dict[str, Any]) -> Attribute:
    """A new attribute."""
    number = connection.execute(insert(attributes), values).inserted_primary_key
    assert number is not None  # noqa: S101 - every row has one
    return Attribute(id=number[0], **values)


def remove(connection: Connection, attribute_id: int) -> None:
    """Delete one."""
    connection.execute(delete(attributes).where(attributes.c.id == attribute_id))


def attribute(row: Record) -> Attribute:
    """The value of a row with the table's columns."""
    return Attribute(
        id=row.id,
        uuid=row.uuid,
        deployable_id=row.deployable_id,
        key=row.key,
        value=row.value,
        operator=bool(row.operator),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
