"""``/v1/events``: what Nova and the webhook were told, and what is still on its way to them. Kept for ``[keeper] event_days``."""

from __future__ import annotations

from typing import Any

import msgspec

from cantle.api.call import Call
from cantle.api.v1 import collection
from cantle.api.v2.resource import Link, stamp
from cantle.engine import event as engine
from cantle.model.event import Channel, EventType, Told


class EventQuery(collection.CollectionQuery, frozen=True, kw_only=True):
    """``about``: uuid of an ARQ or lease. ``ended``: those that are done with, or those that are not."""

    channel: Channel | None = None
    type: EventType | None = None
    about: str | None = None
    ended: bool | None = None


class Shape(msgspec.Struct, frozen=True):
    """An event on the wire; the words are those of :class:`cantle.model.event.Told`."""

    uuid: str
    channel: str
    type: str
    about: str
    outcome: str | None
    attempts: int
    problem: str | None
    created_at: str | None
    due_at: str | None
    ended_at: str | None
    body: dict[str, Any]


class Listed(msgspec.Struct, frozen=True):
    """A list of events."""

    events: list[Shape]
    events_links: list[Link] = []


def list_all(call: Call) -> dict[str, Any]:
    """Events, the oldest first unless the query says otherwise."""
    asked: EventQuery = call.query
    limits = collection.page(call)
    found = engine.list_events(
        call.db, page=limits, ended=asked.ended, channel=asked.channel, type=asked.type, about=asked.about
    )
    return collection.answer(call, "events", limits, found, _shape, kind=Shape, marker=lambda told: told.uuid)


def _shape(told: Told) -> Shape:
    return Shape(
        uuid=told.uuid,
        channel=told.channel,
        type=told.type,
        about=told.about,
        outcome=told.outcome,
        attempts=told.attempts,
        problem=told.problem,
        created_at=stamp(told.created_at),
        due_at=stamp(told.due_at),
        ended_at=stamp(told.ended_at),
        body=msgspec.json.decode(told.body, type=dict[str, Any]),
    )
