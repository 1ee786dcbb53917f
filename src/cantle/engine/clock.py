"""When something was made or changed, for people. What depends on time asks the database's clock instead (`cantle.store.types`)."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import select

from cantle.store.database import Database
from cantle.store.prepared import Prepared
from cantle.store.types import database_now

_NOW = Prepared(select(database_now().label("now")))

#: How long a host has to make the units of a bind ready. Well inside the 300 s that Nova waits (spec S3.7).
BIND_SECONDS = 60.0


def now() -> dt.datetime:
    """This process's time, UTC."""
    return dt.datetime.now(dt.UTC)


def database_time(db: Database) -> dt.datetime:
    """The database's time, UTC: what ends are counted from and compared with, for a server's clock may be wrong. One statement."""
    with db.look() as connection:
        row = _NOW.first(connection, {})
    assert row is not None  # noqa: S101 - a time there always is
    found: dt.datetime = row.now
    return found


def is_in_calendar(moment: dt.datetime) -> bool:
    """Whether an aware time has a year from 1 to 9999 in UTC too, as all times are kept; 9999-12-31T23:59:59-14:00 has not."""
    try:
        moment.astimezone(dt.UTC)
    except OverflowError:
        return False
    return True
