"""What all resources of the accelerator API share: links, times, pages."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote_plus

import msgspec

from cantle.api.call import Call
from cantle.api.query import PageQuery
from cantle.model.page import Page


class Link(msgspec.Struct, frozen=True, gc=False):
    """A link; ``rel`` is ``self``, ``bookmark`` or ``next``."""

    href: str
    rel: str


def self_link(call: Call, collection: str, name: str) -> list[Link]:
    """The ``links`` of the resource ``name`` of ``collection``."""
    return [Link(f"{call.base}/v2/{collection}/{name}", "self")]


def stamp(time: dt.datetime | None) -> str | None:
    """``2026-11-30T10:38:33+00:00`` from an aware time."""
    if time is None:
        return None
    # ``2026-11-30T10:38:33.123456Z`` by msgspec, which writes a time in a tenth of the time that isoformat takes: lists have thousands.
    return f"{msgspec.to_builtins(time.astimezone(dt.UTC))[:19]}+00:00"


def page(call: Call) -> Page:
    """The part of the list asked for."""
    asked: PageQuery = call.query
    return asked.page(call.site.settings.page_limit)


def next_links(call: Call, limit: int | None, items: Sequence[Any]) -> list[Link]:
    """A link to the next page when this one is full; ``items`` have a ``uuid``. Empty for a list asked for as a whole."""
    if limit is None or len(items) < limit:
        return []
    arguments = {name: value for name, value in msgspec.structs.asdict(call.query).items() if value is not None}
    arguments.update(limit=limit, marker=items[-1].uuid)
    query = "&".join(f"{name}={quote_plus(str(value))}" for name, value in arguments.items())
    return [Link(f"{call.base}{call.path}?{query}", "next")]
