"""``/v1/quotas``: how much of a resource class a project may have at once."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cantle.api.call import Call
from cantle.engine import quota as engine
from cantle.model.quota import MAX_LIMIT, Quota


class QuotaQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``project``: of this one only."""

    project: str | None = None


class NewQuota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``limit`` null: none."""

    limit: Annotated[int, msgspec.Meta(ge=0, le=MAX_LIMIT)] | None


class Shape(msgspec.Struct, frozen=True):
    """A quota on the wire; ``limit`` null: none is set. ``used`` counts units that are still being taken back too."""

    project_id: str
    resource_class: str
    limit: int | None
    used: int


class Listed(msgspec.Struct, frozen=True):
    """Quotas and what is used."""

    quotas: list[Shape]


def show(call: Call) -> Listed:
    """The caller's own, for an administrator everybody's."""
    asked: QuotaQuery = call.query
    return Listed([_shape(one) for one in engine.list_quotas(call.db, call.who, asked.project)])


def put(call: Call) -> Shape:
    """Set or take away a limit."""
    new: NewQuota = call.body
    project, resource_class = call.params["project"], call.params["resource_class"]
    return _shape(engine.set_quota(call.db, call.who, project, resource_class, new.limit))


def _shape(one: Quota) -> Shape:
    return Shape(one.project_id, one.resource_class, one.limit, one.used)
