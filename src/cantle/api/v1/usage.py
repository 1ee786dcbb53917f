"""``/v1/usage``: unit-hours by project and class."""

from __future__ import annotations

import datetime as dt

import msgspec

from cantle.api.call import Call
from cantle.api.v1.audit import check_moment
from cantle.engine import usage as engine
from cantle.engine.clock import now


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``since`` (the beginning of this month unless said) and ``until`` (now), with their offset from UTC; ``project``: only this one."""

    since: dt.datetime | None = None
    until: dt.datetime | None = None
    project: str | None = None


class Shape(msgspec.Struct, frozen=True):
    """One class of one project, in unit-hours."""

    project_id: str
    resource_class: str
    hours: float
    loans: int


class Listed(msgspec.Struct, frozen=True):
    """Usage between two moments."""

    since: str
    until: str
    usage: list[Shape]


def show(call: Call) -> Listed:
    """The caller's own, for an administrator everybody's."""
    asked: UsageQuery = call.query
    check_moment("since", asked.since)
    check_moment("until", asked.until)
    until = asked.until or now()
    since = asked.since or until.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    found = engine.measure(call.db, call.who, since, until, asked.project)
    rows = [Shape(one.project_id, one.resource_class, one.hours, one.loans) for one in found]
    return Listed(since.isoformat(), until.isoformat(), rows)
