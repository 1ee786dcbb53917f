"""A host that has something to lend, what it says of its units on their way back, and what the log says then: for tests of leases."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import update
from tests.unit.engine.cloud import Host, make_profile, t4, whole

from cantle.engine.audit import list_records
from cantle.engine.results import accept_results
from cantle.engine.work import current_work
from cantle.store.database import Database
from cantle.store.tables import leases
from cantle.store.types import database_now
from cantle.wire.work import Cleaning, HandleResult, Outcome, Results

SOON = dt.timedelta(minutes=5)
PROJECT = "alice-project"


def lending_host(db: Database) -> Host:
    """A host with four vGPUs and a whole card, and a profile for each."""
    one = Host(db)
    one.report(t4(4), whole())
    make_profile(db, "slice")
    make_profile(db, "pairs", [{"resources:VGPU": "2"}, {"resources:VGPU": "2"}])
    make_profile(db, "card", [{"resources:PGPU": "1"}])
    return one


def slices_host(db: Database) -> Host:
    """A host that offers nothing but slices."""
    other = Host(db, "compute-2")
    other.report(t4(2, host="compute-2"))
    return other


def over(db: Database, uuid: str) -> None:
    """Its time is over now."""
    with db.write() as connection:
        connection.execute(update(leases).where(leases.c.uuid == uuid).values(expires_at=database_now(-1)))


def actions(db: Database, lease_uuid: str | None = None) -> list[str]:
    """What was done, of one lease or at all."""
    return [one.action for one in list_records(db, lease_uuid=lease_uuid)]


def says(
    db: Database,
    host: Host,
    outcome: Outcome,
    code: str | None = None,
    cleaning: Cleaning | None = None,
    *,
    message: str | None = None,
) -> None:
    """The host says of all units that it takes back how far it is; in the words of its code, unless others are given."""
    work = current_work(db, host.name)
    results = tuple(HandleResult(one.uuid, outcome, code, message or code, cleaning) for one in work.unwanted)
    accept_results(db, host.name, Results(host.start, work.generation, results))
