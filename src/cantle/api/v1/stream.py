"""``/v1/events`` as a stream (``Accept: text/event-stream``): the audit log as it grows, as server-sent events
(https://html.spec.whatwg.org/multipage/server-sent-events.html).

Each event's ``id`` is its record's uuid, its ``event`` the action, its ``data`` the record as in ``/v1/audit``. Whoever comes back with
``Last-Event-ID`` gets all he missed, and possibly some again. A new stream begins with the ``id`` of what was there before it, without
data: who loses it before anything has happened comes back with that. A stream takes a waiting place, and ends after a while so that
servers can be drained: clients of this format come back by themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from cantle.api.call import Call
from cantle.api.parking import retry_after
from cantle.api.stream import Stream
from cantle.api.v1 import audit
from cantle.api.v1.event import EventQuery
from cantle.engine.audit import list_records
from cantle.engine.follow import Follower
from cantle.errors import BadRequest, Unavailable
from cantle.model.audit import Record
from cantle.model.page import Page
from cantle.model.uuids import checked
from cantle.store.database import Database
from cantle.store.wakeups import Patience

#: Seconds between two signs of life, for proxies that cut what is silent.
BEAT_S = 15.0
#: Milliseconds after which a client comes back.
_RETRY_MS = 1000
#: In place of a record's uuid while there is none: all that comes is after it.
_BEFORE_ALL = "00000000-0000-0000-0000-000000000000"


def follow(call: Call) -> Stream:
    """Records from now on, or after the one that ``Last-Event-ID`` names; those about one lease, request or unit, if asked.

    :raises BadRequest: ``bad-argument`` for an argument that a stream does not take; ``bad-uuid`` for a ``Last-Event-ID`` that was none of
        ours: whoever sends it would get the whole log.
    :raises Unavailable: ``no-waiting-place``, with a ``Retry-After``.
    """
    asked: EventQuery = call.query
    for name in EventQuery.__struct_fields__:
        if name != "about" and getattr(asked, name) is not None:
            raise BadRequest("bad-argument", f"{name} is for the list of what others were told; a stream takes about.")
    after = checked(call.last_event_id, "Last-Event-ID") if call.last_event_id else None
    with contextlib.ExitStack() as stack:
        if not stack.enter_context(call.site.parking.place()):
            raise Unavailable(
                "no-waiting-place",
                "All waiting places of this server are taken; come back a little later.",
                retry_after=retry_after(),
            )
        begin = after or _last(call.db)  # before it is followed: rather one event twice than none
        follower = Follower(call.db, after)
        chunks = _chunks(call, follower, asked.about, begin, Patience(call.site.settings.longest_wait))
        return Stream(chunks, stack.pop_all())


def _last(db: Database) -> str:
    """What is there already."""
    records = list_records(db, page=Page(limit=1, sort_dir="desc"))
    return records[0].uuid if records else _BEFORE_ALL


def _chunks(call: Call, follower: Follower, about: str | None, begin: str, patience: Patience) -> Iterator[bytes]:
    yield f"retry: {_RETRY_MS}\nid: {begin}\n\n".encode()
    while patience.left and not call.db.wakeups.stopped:
        found = follower.wait(min(BEAT_S, patience.left))
        events = [_event(record) for record in found if about is None or about in _names(record)]
        yield b"".join(events) or b": still here\n\n"


def _names(record: Record) -> tuple[str | None, ...]:
    return record.lease_uuid, record.arq_uuid, record.unit_uuid, record.instance_uuid


def _event(record: Record) -> bytes:
    data = msgspec.json.encode(audit.shape(record)).decode()  # JSON has no line break outside of its strings' escapes
    return f"id: {record.uuid}\nevent: {record.action}\ndata: {data}\n\n".encode()
