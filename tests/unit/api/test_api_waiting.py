"""Requests that wait: woken by what they wait for, never more of them than there are places, and answered when the server stops."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import falcon.testing
import pytest
from tests.stories.hosts import HOSTS, report, t4
from tests.stories.world import World, fresh_database

from cantle.api import parking
from cantle.api.agents import inventory
from cantle.api.parking import BACK_WITHIN_S, RETRY_AFTER, Parking, retry_after, spread
from cantle.api.settings import Settings
from cantle.model.event import Outlets


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two hosts, a profile, and one place for requests that wait."""
    db = fresh_database(tmp_path)
    world = World(db, Settings(parked_slots=1))
    for host, message in HOSTS["two-hosts"].items():
        world.call("PUT", f"/v1/hosts/{host}/inventory", body=message, agent=True)
    world.call("POST", "/v2/device_profiles", body=[{"name": "vgpu", "groups": [{"resources:VGPU": "1"}]}])
    yield world
    db.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Callers."""
    with ThreadPoolExecutor(8) as executor:
        yield executor


def until(true: Callable[[], bool]) -> None:
    """Wait for a condition, at most 20 s."""
    tick = threading.Event()
    for _ in range(2000):
        if true():
            return
        tick.wait(0.01)
    raise AssertionError("it never came true")


def parked(world: World) -> int:
    """How many requests wait now."""
    return sum(len(waiters) for waiters in world.db.wakeups._waiters.values())


def work(world: World, generation: int, wait: int = 60, host: str = "h1") -> falcon.testing.Result:
    """An agent's question for work."""
    return world.call("GET", f"/v1/hosts/{host}/work?generation={generation}&wait={wait}", agent=True)


def lease(world: World) -> str:
    """A new lease on h1."""
    uuid: str = world.call("POST", "/v1/leases", body={"profile": "vgpu", "host": "h1"}).json["uuid"]
    return uuid


def test_an_agent_that_waits_hears_of_new_work_at_once(world: World, threads: ThreadPoolExecutor) -> None:
    now = work(world, 0, wait=0).json["generation"]
    waiting = threads.submit(work, world, now)
    until(lambda: parked(world) == 1)
    lease(world)
    answer = waiting.result(20)
    assert answer.json["generation"] > now
    assert len(answer.json["wanted"]) == 1


def test_one_who_waits_for_a_lease_is_told_when_it_is_ready(world: World, threads: ThreadPoolExecutor) -> None:
    uuid = lease(world)
    waiting = threads.submit(world.call, "GET", f"/v1/leases/{uuid}?wait=60")
    until(lambda: parked(world) == 1)
    wanted = work(world, 0, wait=0).json
    results: list[dict[str, Any]] = [{"uuid": unit["uuid"], "outcome": "ready"} for unit in wanted["wanted"]]
    body = {"agent_start": "s1", "generation": wanted["generation"], "results": results}
    assert world.call("POST", "/v1/hosts/h1/results", body=body, agent=True).status_code == 204
    assert waiting.result(20).json["state"] == "active"


def bind(world: World) -> str:
    """The uuid of an instance with an accelerator request whose bind is on the way on h1."""
    body = {"device_profile_name": "vgpu"}
    (arq,) = world.call("POST", "/v2/accelerator_requests", body=body, person="nova").json["arqs"]
    deployables = world.call("GET", "/v2/deployables").json["deployables"]
    (card,) = [one for one in deployables if one["name"] == "h1_0000:af:00.0"]
    instance = str(uuid4())
    values = {"/hostname": "h1", "/device_rp_uuid": card["rp_uuid"], "/instance_uuid": instance}
    patch = {arq["uuid"]: [{"op": "add", "path": path, "value": value} for path, value in values.items()]}
    assert world.call("PATCH", "/v2/accelerator_requests", body=patch, person="nova").status_code == 202
    return instance


def ready(world: World) -> None:
    """h1 has made ready all that it was to."""
    wanted = work(world, 0, wait=0).json
    results: list[dict[str, Any]] = [{"uuid": unit["uuid"], "outcome": "ready"} for unit in wanted["wanted"]]
    body = {"agent_start": "s1", "generation": wanted["generation"], "results": results}
    assert world.call("POST", "/v1/hosts/h1/results", body=body, agent=True).status_code == 204


def states(answer: falcon.testing.Result) -> list[str]:
    """Of the accelerator requests in an answer."""
    return [arq["state"] for arq in answer.json["arqs"]]


def test_a_server_that_is_unshelved_gets_its_accelerator_though_nova_hears_no_event_meanwhile(
    world: World, threads: ThreadPoolExecutor
) -> None:
    """Nova gives it its host only after it waited for the event, and takes no event for a server without a host: 422, for 300 s."""
    world.db.outlets = Outlets(nova_waits=300)
    instance = bind(world)
    asked = f"/v2/accelerator_requests?instance={instance}"
    assert states(world.call("GET", asked, person="member")) == ["BindStarted"], "a person is answered at once"
    waiting = threads.submit(world.call, "GET", asked, person="nova")
    until(lambda: parked(world) == 1)
    assert states(world.call("GET", asked, person="nova")) == ["BindStarted"], (
        "at once where all waiting places are taken"
    )
    ready(world)
    assert states(waiting.result(20)) == ["Bound"]


def test_nova_is_answered_at_once_where_it_is_not_told_of_binds(world: World) -> None:
    instance = bind(world)
    assert states(world.call("GET", f"/v2/accelerator_requests?instance={instance}", person="nova")) == ["BindStarted"]


def test_when_all_places_are_taken_the_next_is_sent_away_and_a_place_that_is_left_is_free(
    world: World, threads: ThreadPoolExecutor
) -> None:
    now, other = (work(world, 0, wait=0, host=host).json["generation"] for host in ("h1", "h2"))
    first = threads.submit(work, world, now)
    until(lambda: parked(world) == 1)
    turned_away = work(world, other, host="h2")
    assert (turned_away.status_code, turned_away.headers["x-cantle-error-code"]) == (503, "no-waiting-place")
    assert RETRY_AFTER[0] <= int(turned_away.headers["retry-after"]) <= RETRY_AFTER[1]
    assert work(world, other, wait=0, host="h2").status_code == 200
    lease(world)
    first.result(20)
    second = threads.submit(work, world, other, host="h2")
    until(lambda: parked(world) == 1)
    world.db.wakeups.stop()
    assert second.result(20).status_code == 503


def test_an_agent_that_comes_again_needs_no_second_place_and_ends_its_earlier_call(
    world: World, threads: ThreadPoolExecutor
) -> None:
    """It was restarted, say, and the server has not noticed that the earlier connection is dead."""
    now = work(world, 0, wait=0).json["generation"]
    earlier = threads.submit(work, world, now)
    until(lambda: parked(world) == 1)
    later = threads.submit(work, world, now)
    assert earlier.result(20).json["generation"] == now
    until(lambda: parked(world) == 1)
    lease(world)
    assert later.result(20).json["generation"] > now


def test_a_server_that_stops_answers_all_who_wait_and_spreads_their_return(
    world: World, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = work(world, 0, wait=0).json["generation"]
    waiting = threads.submit(work, world, now)
    until(lambda: parked(world) == 1)
    world.db.wakeups.stop()
    answer = waiting.result(20)
    assert (answer.status_code, answer.headers["x-cantle-error-code"]) == (503, "server-stopping")
    assert answer.headers["retry-after"] == "0", "there is one of them"
    monkeypatch.setattr(parking, "BACK_PER_S", 1)
    assert {work(world, now).headers["retry-after"] for _ in range(40)} == {"0", "1"}, "one was too many"


def test_the_more_were_waiting_the_longer_they_are_told_to_stay_away() -> None:
    assert {spread(99) for _ in range(200)} == {0}
    assert {spread(299) for _ in range(200)} == {0, 1, 2}
    assert max(spread(1_000_000) for _ in range(200)) <= BACK_WITHIN_S


def test_that_nothing_has_changed_makes_no_line_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A line a minute from each of two thousand agents."""
    path = "/v1/hosts/h1/work?generation=1&wait=0.01"
    with caplog.at_level(logging.INFO, "cantle.api.access"):
        for tag, status in (('"1"', 304), ('"0"', 200)):
            assert world.call("GET", path, agent=True, headers={"If-None-Match": tag}).status_code == status
    assert [record.__dict__["status"] for record in caplog.records if "/work" in record.getMessage()] == [200]


def test_an_agent_that_says_what_it_has_is_answered_without_a_body_when_that_is_still_so(world: World) -> None:
    first = work(world, 0, wait=0)
    tag = first.headers["etag"]
    path = f"/v1/hosts/h1/work?generation={first.json['generation']}&wait=0.01"
    for headers, status in (({"If-None-Match": tag}, 304), ({"If-None-Match": '"0"'}, 200), ({}, 200)):
        answer = world.call("GET", path, agent=True, headers=headers)
        assert answer.status_code == status
        assert (answer.json == first.json) if status == 200 else (answer.text == "")
    lease(world)
    answer = world.call("GET", path, agent=True, headers={"If-None-Match": tag})
    assert (answer.status_code, len(answer.json["wanted"])) == (200, 1)


def test_a_place_is_given_back_whatever_happens() -> None:
    parking = Parking(1)

    def fail_while_parked() -> None:
        with parking.place() as free, parking.place() as second:
            assert (free, second) == (True, False)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_while_parked()
    with parking.place() as again:
        assert again


def test_those_sent_away_are_spread_over_time() -> None:
    assert len({retry_after() for _ in range(200)}) > 1


def test_reports_of_a_crowd_wait_their_turn_and_nobody_else_does(tmp_path: Path) -> None:
    """After a restart thousands of agents come back at once; whoever only asks for work is not behind their reports."""
    world = World(fresh_database(tmp_path))
    put = functools.partial(world.call, "PUT", agent=True)
    assert put("/v1/hosts/h1/inventory", body=report(t4())).status_code == 200
    turns = [inventory.TURNS.acquire(timeout=1) for _ in range(4)]
    try:
        answers: list[int] = []
        waiting = threading.Thread(
            target=lambda: answers.append(put("/v1/hosts/h2/inventory", body=report(t4("h2"))).status_code)
        )
        waiting.start()
        assert world.call("GET", "/v1/hosts/h1/work", agent=True).status_code == 200
        assert world.call("GET", "/v1/hosts").json["hosts"][0]["hostname"] == "h1"
        assert answers == []
    finally:
        for _ in turns:
            inventory.TURNS.release()
    waiting.join(30)
    assert answers == [200]
    world.db.close()
