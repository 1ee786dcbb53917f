"""``/v1/audit``: who did what to which thing, when. It can be read and nothing else."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec

from cantle.api.call import Call
from cantle.api.v1 import collection
from cantle.api.v2.resource import Link, stamp
from cantle.engine import audit as engine
from cantle.engine.clock import is_in_calendar
from cantle.errors import BadRequest
from cantle.model.audit import Record


class AuditQuery(collection.CollectionQuery, frozen=True, kw_only=True):
    """``since``: from then on; ``until``: before then; both with their offset from UTC. The others are matched as a whole; ``owner_id`` is
    the project whose thing it is."""

    since: dt.datetime | None = None
    until: dt.datetime | None = None
    action: str | None = None
    user_id: str | None = None
    owner_id: str | None = None
    hostname: str | None = None
    device: str | None = None
    unit_uuid: str | None = None
    lease_uuid: str | None = None
    arq_uuid: str | None = None
    instance_uuid: str | None = None
    request_id: str | None = None


class Shape(msgspec.Struct, frozen=True):
    """A record on the wire; the words are those of :class:`cantle.model.audit.Record`."""

    uuid: str
    created_at: str
    action: str
    user_id: str
    project_id: str | None
    token_uuid: str | None
    request_id: str | None
    owner_id: str | None
    hostname: str | None
    device: str | None
    unit_uuid: str | None
    resource_class: str | None
    lease_uuid: str | None
    arq_uuid: str | None
    instance_uuid: str | None
    since: str | None
    facts: dict[str, str]


class Listed(msgspec.Struct, frozen=True):
    """A list of records."""

    records: list[Shape]
    records_links: list[Link] = []


def list_all(call: Call) -> dict[str, Any]:
    """Records, the oldest first unless the query says otherwise."""
    asked: AuditQuery = call.query
    limits = collection.page(call)
    for name, moment in (("since", asked.since), ("until", asked.until)):
        check_moment(name, moment)
    names = set(AuditQuery.__struct_fields__) - set(collection.CollectionQuery.__struct_fields__) - {"since", "until"}
    where = {name: getattr(asked, name) for name in names}
    found = engine.list_records(call.db, page=limits, since=asked.since, until=asked.until, **where)
    return collection.answer(call, "records", limits, found, shape, kind=Shape, marker=lambda one: one.uuid)


def check_moment(name: str, moment: dt.datetime | None) -> None:
    """Refuse a time without its zone, or that no calendar has in UTC.

    :raises BadRequest: ``bad-argument``.
    """
    if moment is not None and moment.tzinfo is None:
        raise BadRequest(
            "bad-argument", f"{name} is {moment.isoformat()}, which names no time zone; add Z or an offset."
        )
    if moment is not None and not is_in_calendar(moment):
        raise BadRequest("bad-argument", f"{name} is {moment.isoformat()}, which is no year from 1 to 9999 in UTC.")


def shape(record: Record) -> Shape:
    """A record as it goes over the wire."""
    created = stamp(record.created_at)
    assert created is not None  # noqa: S101 - every record has one
    return Shape(
        uuid=record.uuid,
        created_at=created,
        action=record.action,
        user_id=record.user_id,
        project_id=record.project_id,
        token_uuid=record.token_uuid,
        request_id=record.request_id,
        owner_id=record.owner_id,
        hostname=record.hostname,
        device=record.device,
        unit_uuid=record.unit_uuid,
        resource_class=record.resource_class,
        lease_uuid=record.lease_uuid,
        arq_uuid=record.arq_uuid,
        instance_uuid=record.instance_uuid,
        since=stamp(record.since),
        facts=dict(record.facts),
    )
