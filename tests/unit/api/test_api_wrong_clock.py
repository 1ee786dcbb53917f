"""A server whose clock is wrong: what ends, ends when it should, and what is counted is counted right."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stories.hosts import HOSTS
from tests.stories.world import World, fresh_database

from cantle.engine import clock, usage

HOUR = dt.timedelta(hours=1)


@pytest.fixture(params=[HOUR, -HOUR], ids=["ahead", "behind"])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Two hosts, a profile, and a clock that is an hour off."""
    db = fresh_database(tmp_path)
    world = World(db)
    for host, message in HOSTS["two-hosts"].items():
        world.call("PUT", f"/v1/hosts/{host}/inventory", body=message, agent=True)
    world.call("POST", "/v2/device_profiles", body=[{"name": "vgpu", "groups": [{"resources:VGPU": "1"}]}])
    wrong = SimpleNamespace(now=lambda zone: dt.datetime.now(zone) + request.param)
    for module in (clock, usage):
        monkeypatch.setattr(module, "dt", SimpleNamespace(datetime=wrong, UTC=dt.UTC))
    yield world
    db.close()


def left(lease: dict[str, Any]) -> float:
    """Seconds until its end."""
    ends = dt.datetime.fromisoformat(lease["expires_at"]).replace(tzinfo=dt.UTC)
    return (ends - dt.datetime.now(dt.UTC)).total_seconds()


def test_a_lease_of_half_an_hour_lasts_half_an_hour(world: World) -> None:
    made = world.call("POST", "/v1/leases", body={"profile": "vgpu", "expires_in": 1800}).json
    assert 1500 < left(made) <= 1800
    renewed = world.call("POST", f"/v1/leases/{made['uuid']}/renew", body={"expires_in": 3000}).json
    assert 2700 < left(renewed) <= 3000


def test_an_end_is_over_when_it_is(world: World) -> None:
    for minutes, status in ((30, 201), (-30, 400)):
        at = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=minutes)
        answer = world.call("POST", "/v1/leases", body={"profile": "vgpu", "expires_at": at.isoformat()})
        assert answer.status_code == status


def test_what_was_had_for_a_moment_is_counted_so(world: World) -> None:
    world.call("POST", "/v1/leases", body={"profile": "vgpu"})
    now = dt.datetime.now(dt.UTC)
    since, until = ((now + days * dt.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ") for days in (-1, 1))
    answer = world.call("GET", f"/v1/usage?since={since}&until={until}")
    (had,) = answer.json["usage"]
    assert (had["loans"], had["hours"] < 0.1) == (1, True)
    assert had["hours"] > 0
