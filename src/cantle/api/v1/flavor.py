"""``/v1/flavors``: named sets of extra specs, accepted wherever a device profile is."""

from __future__ import annotations

from typing import Any

import msgspec

from cantle.api.call import Call
from cantle.api.v1 import collection
from cantle.api.v2.resource import Link, stamp
from cantle.engine import flavor as engine
from cantle.model.flavor import Flavor


class FlavorQuery(collection.CollectionQuery, frozen=True, kw_only=True):
    """``name``: only the flavor of that name."""

    name: str | None = None


class NewFlavor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client sends; a number given as a value is taken as text."""

    name: str
    extra_specs: dict[str, Any]
    description: str | None = None


class Shape(msgspec.Struct, frozen=True):
    """A flavor on the wire; the words are those of :class:`cantle.model.flavor.Flavor`."""

    uuid: str
    name: str
    description: str | None
    extra_specs: dict[str, str]
    created_at: str | None


class Listed(msgspec.Struct, frozen=True):
    """A list of flavors."""

    flavors: list[Shape]
    flavors_links: list[Link] = []


def list_all(call: Call) -> dict[str, Any]:
    """Flavors, in the order they were made unless the query says otherwise."""
    asked: FlavorQuery = call.query
    limits = collection.page(call)
    found = engine.list_flavors(call.db, name=asked.name, page=limits)
    return collection.answer(call, "flavors", limits, found, _shape, kind=Shape, marker=lambda flavor: flavor.uuid)


def show(call: Call) -> Shape:
    """One flavor by name or uuid."""
    return _shape(engine.get_flavor(call.db, call.params["ref"]))


def create(call: Call) -> Shape:
    """A new flavor."""
    new: NewFlavor = call.body
    made = engine.create_flavor(
        call.db,
        call.who,
        name=new.name,
        extra_specs=new.extra_specs,
        aliases=call.site.settings.aliases,
        description=new.description,
        once=call.once(_shape),
    )
    return _shape(made)


def delete(call: Call) -> None:
    """Delete one by name or uuid."""
    engine.delete_flavor(call.db, call.who, call.params["ref"])


def _shape(flavor: Flavor) -> Shape:
    return Shape(flavor.uuid, flavor.name, flavor.description, flavor.extra_specs, stamp(flavor.created_at))
