"""Nova is told once a bind is settled: at least once, in order, whatever it answers (spec S3.5, S3.7)."""

from __future__ import annotations

import logging
import threading
from uuid import uuid4

import pytest
from tests.unit.engine.cloud import ALICE, NOVA_FOR_ALICE, capacity_of
from tests.unit.keeper.conftest import Cloud, until
from tests.unit.keeper.listener import CLOSE, HANG, Answer, Request

from cantle.engine.arq import delete_arqs, get_arq
from cantle.engine.bind import Bind, Unbind, bind, unbind
from cantle.engine.lease import create_lease
from cantle.keeper import deadline
from cantle.model.arq import ArqState
from cantle.model.event import Outlets


def answering_each(*codes: int) -> object:
    """Answers a batch with a code for each of its events, in turn."""
    left = list(codes)

    def answer(request: Request) -> Answer:
        events = [{**event, "code": left.pop(0)} for event in request.json["events"]]
        return (207, {"events": events}, {})

    return answer


def test_a_bound_request_is_told_in_novas_own_form(cloud: Cloud) -> None:
    arq = cloud.bound()
    assert cloud.to_nova().round() == 1
    (request,) = cloud.listener.requests
    assert request.path == "/v2.1/os-server-external-events"
    assert request.headers["OpenStack-API-Version"] == "compute 2.82"
    assert request.json == {
        "events": [
            {
                "name": "accelerator-request-bound",
                "server_uuid": get_arq(cloud.db, ALICE, arq.uuid).instance_uuid,
                "tag": arq.uuid,
                "status": "completed",
            }
        ]
    }
    assert cloud.outcomes() == ["delivered"]
    assert cloud.to_nova().round() == 0


def test_many_events_go_in_one_call(cloud: Cloud) -> None:
    arqs = [cloud.start().uuid for _ in range(5)]
    cloud.host.obey()
    cloud.to_nova().round()
    (request,) = cloud.listener.requests
    assert {event["tag"] for event in request.json["events"]} == set(arqs)


def test_nothing_is_written_before_the_host_has_spoken_nor_for_leases(cloud: Cloud) -> None:
    cloud.start()
    create_lease(cloud.db, ALICE, profile_name="vgpu")
    assert cloud.outbox() == []
    cloud.host.obey()
    assert len(cloud.outbox()) == 1


def test_nothing_is_written_where_nobody_is_told(cloud: Cloud) -> None:
    cloud.db.outlets = Outlets()
    arq = cloud.failed()
    assert cloud.outbox() == []
    assert get_arq(cloud.db, ALICE, arq.uuid).shown_state is ArqState.BIND_FAILED


@pytest.mark.parametrize("answer", [(500, {}, {}), (503, {}, {}), (401, {}, {}), (406, {}, {}), (207, [], {}), CLOSE])
def test_what_nova_did_not_take_is_sent_again(cloud: Cloud, answer: Answer) -> None:
    cloud.bound()
    courier = cloud.to_nova()
    cloud.listener.answers = [answer]
    assert courier.round() == 1
    assert cloud.outcomes() == [None]
    assert courier.round() == 0, "not at once"
    (row,) = cloud.outbox()
    assert row.problem
    cloud.time_passes()
    assert courier.round() == 1
    assert cloud.outcomes() == ["delivered"]
    assert cloud.listener.statuses == ["completed", "completed"]


def test_a_nova_that_hangs_is_left_and_asked_again(cloud: Cloud) -> None:
    cloud.bound()
    courier = cloud.to_nova()
    cloud.listener.answers = [HANG]
    assert courier.round() == 1
    assert cloud.outcomes() == [None]
    cloud.time_passes()
    courier.round()
    assert cloud.outcomes() == ["delivered"]


def test_an_instance_without_a_host_is_asked_again_soon_and_the_others_of_the_batch_are_done(cloud: Cloud) -> None:
    for _ in range(3):
        cloud.start()
    cloud.host.obey()
    cloud.listener.always = answering_each(200, 422, 404, 200)  # type: ignore[assignment]
    courier = cloud.to_nova()
    courier.round()
    assert cloud.outcomes() == ["delivered", None, "refused"]
    cloud.time_passes()
    courier.round()
    assert cloud.outcomes() == ["delivered", "delivered", "refused"]


def test_an_ordinary_boot_warns_of_nothing_though_its_event_comes_before_its_host(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    """Nova answers 422 at nearly every boot: a bind is quicker than it is with the instance's host."""
    cloud.bound()
    cloud.listener.always = answering_each(422, 422)  # type: ignore[assignment]
    courier = cloud.to_nova()
    with caplog.at_level(logging.WARNING):
        courier.round()
        assert not caplog.records
        cloud.time_passes()
        courier.round()
    assert "has no host yet" in caplog.text, "it goes on"


def test_an_instance_that_nova_does_not_know_is_not_told_again(cloud: Cloud) -> None:
    cloud.bound()
    cloud.listener.always = answering_each(404)  # type: ignore[assignment]
    cloud.to_nova().round()
    assert cloud.outcomes() == ["refused"]
    (row,) = cloud.outbox()
    assert "role admin" in row.problem, "Nova hides instances from a user without it"


def test_a_server_that_is_no_nova_loses_no_event(cloud: Cloud) -> None:
    cloud.bound()
    cloud.listener.answers = [(404, {}, {})]
    cloud.to_nova().round()
    (row,) = cloud.outbox()
    assert row.outcome is None
    assert "endpoint" in row.problem


def test_a_nova_that_falls_ill_while_a_malformed_event_is_looked_for_is_left_alone(cloud: Cloud) -> None:
    for _ in range(4):
        cloud.start()
    cloud.host.obey()
    cloud.listener.answers = [(400, {}, {}), (200, {}, {}), (503, {}, {})]
    cloud.to_nova().round()
    assert cloud.outcomes() == ["delivered", None, None, None]
    assert len(cloud.listener.requests) == 3


def test_one_malformed_event_holds_up_no_other_and_is_named_in_the_log(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = cloud.start(), cloud.start()
    cloud.host.obey()

    def picky(request: Request) -> Answer:
        wrong = any(event["tag"] == bad.uuid for event in request.json["events"])
        return (400, {"badRequest": {"message": "Invalid input"}}, {}) if wrong else (200, {}, {})

    cloud.listener.always = picky
    with caplog.at_level(logging.WARNING):
        cloud.to_nova().round()
    assert {row.about: row.outcome for row in cloud.outbox()} == {good.uuid: "delivered", bad.uuid: "refused"}
    assert good.uuid not in caplog.text
    assert bad.uuid in caplog.text
    assert "Invalid input" in caplog.text


def test_a_failure_is_told_again_and_again_and_not_shown_until_nova_has_stopped_waiting(cloud: Cloud) -> None:
    arq = cloud.failed()
    seen = get_arq(cloud.db, ALICE, arq.uuid)
    assert (seen.state, seen.shown_state, seen.reason_code) == (
        ArqState.BIND_FAILED,
        ArqState.BIND_STARTED,
        "mdev-no-space",
    )
    courier = cloud.to_nova()
    for _ in range(3):
        assert courier.round() == 1
        assert cloud.outcomes() == [None]
        cloud.time_passes()
    cloud.nova_stops_waiting()
    courier.round()
    assert cloud.listener.statuses == ["failed"] * 4
    assert cloud.outcomes() == ["delivered"]
    assert get_arq(cloud.db, ALICE, arq.uuid).shown_state is ArqState.BIND_FAILED


def test_a_failure_is_told_again_after_two_seconds(cloud: Cloud) -> None:
    cloud.failed()
    cloud.to_nova().round()
    (row,) = cloud.outbox()
    assert 1.5 < (row.due_at - row.created_at).total_seconds() < 60
    assert (row.repeat_until - row.created_at).total_seconds() == pytest.approx(300, abs=1)


def test_the_failed_unit_goes_back_at_once_though_the_failure_is_not_shown(cloud: Cloud) -> None:
    cloud.failed()
    cloud.host.obey()
    assert capacity_of(cloud.db).free == 8


@pytest.mark.parametrize("end", ["delete", "unbind"])
def test_a_failure_is_no_longer_told_once_its_request_is_let_go(cloud: Cloud, end: str) -> None:
    arq = cloud.failed()
    courier = cloud.to_nova()
    courier.round()
    if end == "delete":
        delete_arqs(cloud.db, NOVA_FOR_ALICE, [arq.uuid])
    else:
        unbind(cloud.db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
        assert get_arq(cloud.db, ALICE, arq.uuid).shown_state is ArqState.UNBOUND
    cloud.time_passes()
    courier.round()
    assert cloud.listener.statuses == ["failed"]
    assert cloud.outcomes() == ["withdrawn"]


def test_a_request_that_is_bound_anew_is_not_told_of_its_earlier_failure(cloud: Cloud) -> None:
    instance = str(uuid4())
    arq = cloud.failed(instance)
    unbind(cloud.db, NOVA_FOR_ALICE, [Unbind(arq.uuid)])
    cloud.host.obey()
    cloud.bind(arq, instance)
    cloud.host.obey()
    courier = cloud.to_nova()
    while courier.round():
        pass
    assert cloud.listener.statuses == ["completed"]
    assert cloud.outcomes() == ["withdrawn", "delivered"]


def test_a_host_that_does_not_answer_in_time_is_told_as_a_failure(cloud: Cloud) -> None:
    cloud.start()
    with cloud.db.write() as connection:
        connection.exec_driver_sql("UPDATE arqs SET deadline = '2001-01-01 00:00:00.000000'")
    deadline.sweep(cloud.db)
    cloud.to_nova().round()
    assert cloud.listener.statuses == ["failed"]


def test_a_bind_that_is_asked_for_again_is_told_again(cloud: Cloud) -> None:
    arq = cloud.bound()
    courier = cloud.to_nova()
    courier.round()
    seen = get_arq(cloud.db, ALICE, arq.uuid)
    assert seen.instance_uuid is not None
    bind(cloud.db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", str(seen.device_rp_uuid), seen.instance_uuid)])
    courier.round()
    assert cloud.listener.statuses == ["completed", "completed"]


def test_it_is_told_at_once_by_a_courier_that_waits_and_stops_when_asked(cloud: Cloud) -> None:
    stop = threading.Event()
    courier = cloud.to_nova()
    courier._stop = stop
    running = threading.Thread(target=courier.run)
    running.start()
    cloud.bound()
    until(lambda: cloud.outcomes() == ["delivered"])
    stop.set()
    running.join(20)
    assert not running.is_alive()
