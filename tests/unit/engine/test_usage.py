"""For how long projects had units."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import update
from tests.unit.engine.cloud import ADMIN, ALICE, BOB, Host
from tests.unit.engine.lending import PROJECT, lending_host

from cantle.engine.force import force_release
from cantle.engine.lease import create_lease, release_lease
from cantle.engine.usage import measure
from cantle.errors import BadRequest, NotFound
from cantle.store.database import Database
from cantle.store.tables import claims


@pytest.fixture
def host(db: Database) -> Host:
    """With slices and a whole card."""
    return lending_host(db)


def test_usage_is_unit_hours_from_the_claim_to_the_return(db: Database, host: Host) -> None:
    lease = create_lease(db, ALICE, profile_name="slice", count=2)
    host.obey()
    now = dt.datetime.now(dt.UTC)
    with db.write() as connection:
        connection.execute(update(claims).values(lent_at=now - dt.timedelta(hours=3)))
    hour = dt.timedelta(hours=1)
    (running,) = measure(db, ALICE, now - 2 * hour, now - hour)
    assert (running.project_id, running.resource_class, running.hours, running.loans) == (PROJECT, "VGPU", 2.0, 2)
    release_lease(db, ALICE, lease.uuid)
    host.obey()
    (ended,) = measure(db, ADMIN, now - 4 * hour, now)
    assert ended.hours == pytest.approx(6.0, abs=0.01)
    assert measure(db, ALICE, now + hour, now + 2 * hour) == []
    assert measure(db, BOB, now - 4 * hour, now) == []
    create_lease(db, BOB, profile_name="slice")
    both = measure(db, ADMIN, now - 4 * hour, now + hour)
    assert [one.project_id for one in both] == [PROJECT, "bob-project"]
    assert measure(db, ADMIN, now - 4 * hour, now + hour, PROJECT)[:1] == both[:1]
    assert [one.project_id for one in measure(db, ADMIN, now - 4 * hour, now + hour, "bob-project")] == ["bob-project"]
    with pytest.raises(NotFound):
        measure(db, BOB, now - hour, now, PROJECT)
    with pytest.raises(BadRequest):
        measure(db, ALICE, now, now)


def test_what_was_taken_for_free_by_force_was_had_until_then(db: Database, host: Host) -> None:
    """Also where the host never says that it is back."""
    lease = create_lease(db, ALICE, profile_name="card")
    now, hour = dt.datetime.now(dt.UTC), dt.timedelta(hours=1)
    with db.write() as connection:
        connection.execute(update(claims).values(lent_at=now - 2 * hour))
    force_release(db, ADMIN, lease.uuid, "host scrapped")
    (had,) = measure(db, ALICE, now - 4 * hour, now + hour)
    assert (had.resource_class, had.loans) == ("PGPU", 1)
    assert had.hours == pytest.approx(2.0, abs=0.01)
