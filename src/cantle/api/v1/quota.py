"""``/v1/quotas``: how much of a resource class a project may have at once."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from cantle.api.call import Call
from cantle.api.v1 import collection
from cantle.api.v2.resource import Link
from cantle.engine import quota as engine
from cantle.model.quota import MAX_LIMIT, Quota


class QuotaQuery(collection.CollectionQuery, frozen=True, kw_only=True):
    """``project``: of this one only. The list is by project and class; its marker is ``PROJECT/CLASS``."""

    project: str | None = None


class NewQuota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``limit`` null: none."""

    limit: Annotated[int, msgspec.Meta(ge=0, le=MAX_LIMIT)] | None


class Shape(msgspec.Struct, frozen=True):
    """A quota on the wire; ``limit`` null: none is set. ``used`` counts units that are still being taken back too. The
    project ``*`` has the limits of all that have none of their own; ``inherited``: this is such a one."""

    project_id: str
    resource_class: str
    limit: int | None
    used: int
    inherited: bool


class Limited(Shape, frozen=True):
    """A limit that was set. ``warnings``: sentences about what may not have been meant; it counts nevertheless."""

    warnings: list[str]


class Listed(msgspec.Struct, frozen=True):
    """Quotas and what is used."""

    quotas: list[Shape]
    quotas_links: list[Link] = []


def show(call: Call) -> dict[str, Any]:
    """The caller's own, for an administrator everybody's and the defaults."""
    asked: QuotaQuery = call.query
    limits = collection.page(call, sort_key="project_id")
    found = engine.list_quotas(call.db, call.who, asked.project, page=limits)
    return collection.answer(call, "quotas", limits, found, _shape, kind=Shape, marker=engine.marker)


def put(call: Call) -> Limited:
    """Set or take away a limit."""
    new: NewQuota = call.body
    project, resource_class = call.params["project"], call.params["resource_class"]
    one = engine.set_quota(call.db, call.who, project, resource_class, new.limit)
    doubt = engine.doubt(call.db, resource_class, new.limit)
    warnings = [] if doubt is None else [doubt]
    return Limited(one.project_id, one.resource_class, one.limit, one.used, one.inherited, warnings)


def _shape(one: Quota) -> Shape:
    return Shape(one.project_id, one.resource_class, one.limit, one.used, one.inherited)
