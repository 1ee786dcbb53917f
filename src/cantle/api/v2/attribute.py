"""``/v2/attributes``: facts about deployables; those written here survive the host's next report."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cantle.api.call import Call
from cantle.api.query import PageQuery
from cantle.api.v2.resource import Link, next_links, page, self_link, stamp
from cantle.engine import attribute as engine
from cantle.model.deployable import Attribute
from cantle.model.uuids import checked

#: A number the database gave; what it could never give is refused before it is asked.
RowNumber = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class AttributeQuery(PageQuery, frozen=True, kw_only=True):
    """``deployable_id`` is the number a deployable's attributes carry. A ``key`` that is empty is none, as in Cyborg."""

    deployable_id: RowNumber | None = None
    key: str | None = None


#: The ``openstack`` commands send it as text.
RowNumberAsText = Annotated[str, msgspec.Meta(pattern="^[1-9][0-9]{0,17}$")]


class NewAttribute(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client sends, bare."""

    deployable_id: RowNumber | RowNumberAsText
    key: str
    value: str


class AttributeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Either of the two forms clients send: bare, or wrapped in ``attribute`` as openstacksdk does (contract section 5.2)."""

    attribute: NewAttribute | None = None
    deployable_id: RowNumber | RowNumberAsText | None = None
    key: str | None = None
    value: str | None = None

    def __post_init__(self) -> None:
        bare = (self.deployable_id, self.key, self.value)
        if self.attribute is None and None in bare:
            raise ValueError("deployable_id, key and value are all needed")
        if self.attribute is not None and bare != (None, None, None):
            raise ValueError("give the fields either bare or inside 'attribute', not both")


class Shape(msgspec.Struct, frozen=True):
    """An attribute on the wire."""

    uuid: str
    deployable_id: int
    key: str
    value: str
    created_at: str | None
    updated_at: str | None
    links: list[Link]


class Listed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A list of attributes."""

    attributes: list[Shape]
    attributes_links: list[Link] = []


def list_all(call: Call) -> Listed:
    """Attributes, those of a deployable or of a key if asked."""
    asked: AttributeQuery = call.query
    limits = page(call)
    found = engine.list_attributes(call.db, deployable_id=asked.deployable_id, key=asked.key or None, page=limits)
    return Listed([_shape(call, attribute) for attribute in found], next_links(call, limits.limit, found))


def show(call: Call) -> Shape:
    """One attribute."""
    return _shape(call, engine.get_attribute(call.db, checked(call.params["uuid"], "The attribute's uuid")))


def create(call: Call) -> Shape:
    """Add an attribute to a deployable."""
    sent: AttributeBody = call.body
    new = sent.attribute or NewAttribute(sent.deployable_id or 0, sent.key or "", sent.value or "")
    made = engine.create_attribute(
        call.db, call.who, deployable_id=int(new.deployable_id), key=new.key, value=new.value
    )
    return _shape(call, made)


def delete(call: Call) -> None:
    """Delete an attribute that was written over the API."""
    engine.delete_attribute(call.db, call.who, checked(call.params["uuid"], "The attribute's uuid"))


def _shape(call: Call, attribute: Attribute) -> Shape:
    return Shape(
        uuid=attribute.uuid,
        deployable_id=attribute.deployable_id,
        key=attribute.key,
        value=attribute.value,
        created_at=stamp(attribute.created_at),
        updated_at=stamp(attribute.updated_at),
        links=self_link(call, "attributes", attribute.uuid),
    )
