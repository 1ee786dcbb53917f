"""What all collections of our own API share: pages, chosen fields, and the link that leads on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from cantle.api.call import Call
from cantle.api.query import PageQuery
from cantle.api.v2.resource import Link
from cantle.errors import BadRequest
from cantle.model.page import Page

T = TypeVar("T")

#: The argument that names the fields of the items to answer with.
FIELDS = "fields"


class CollectionQuery(PageQuery, frozen=True, kw_only=True):
    """``fields``: the fields of each item to answer with, separated by commas; all of them unless said. A page without a ``limit`` is as
    large as this server's pages get: follow the ``next`` link until there is none."""

    fields: str | None = None


def page(call: Call, *, sort_key: str = "created_at") -> Page:
    """The part of the collection asked for, never all of it. ``sort_key`` is the one that counts where none is asked for."""
    asked: CollectionQuery = call.query
    largest = call.site.settings.page_limit
    return Page(
        limit=min(asked.limit or largest, largest),
        marker=asked.marker,
        sort_key=asked.sort_key or sort_key,
        sort_dir=asked.sort_dir or "asc",
    )


def answer(
    call: Call,
    name: str,
    limits: Page,
    found: Sequence[T],
    shape: Callable[[T], msgspec.Struct],
    *,
    kind: type[msgspec.Struct],
    marker: Callable[[T], str],
) -> dict[str, Any]:
    """``{name: [items], name_links: [the next page, if this one is full]}``.

    :param shape: an item as it goes over the wire; ``kind`` is its type.
    :param marker: what names an item of this collection as the last one seen.
    :raises BadRequest: ``unknown-field``.
    """
    names = _fields(call, kind)
    items: list[Any] = [shape(one) for one in found]
    if names is not None:
        items = [{field: getattr(item, field) for field in names} for item in items]
    content: dict[str, Any] = {name: items}
    if limits.limit is not None and len(found) >= limits.limit:
        content[f"{name}_links"] = [_next(call, limits.limit, marker(found[-1]))]
    return content


def _fields(call: Call, kind: type[msgspec.Struct]) -> list[str] | None:
    asked: CollectionQuery = call.query
    if asked.fields is None:
        return None
    names = [name.strip() for name in asked.fields.split(",") if name.strip()]
    for name in names:
        if name not in kind.__struct_fields__:
            raise BadRequest(
                "unknown-field",
                f"There is no field '{name}'. The fields are: {', '.join(kind.__struct_fields__)}.",
                field=name,
            )
    return names or None


def _next(call: Call, limit: int, marker: str) -> Link:
    given = msgspec.structs.asdict(call.query)
    arguments = {name: _written(value) for name, value in given.items() if value is not None}
    arguments.update(limit=str(limit), marker=marker)
    return Link(f"{call.base}{call.path}?{urlencode(arguments)}", "next")


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
