"""Webhooks: what is told, in which form, and to receivers of every kind."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import threading
from uuid import uuid4

import pytest
from sqlalchemy import update
from tests.unit.engine.cloud import ADMIN, ALICE
from tests.unit.keeper.conftest import Cloud
from tests.unit.keeper.listener import CLOSE, DRIP, HANG, Answer, Listener, Request, listening

from cantle.engine.arq import create_arqs
from cantle.engine.device import list_devices, set_status
from cantle.engine.lease import create_lease, release_lease
from cantle.engine.renewal import renew_lease
from cantle.keeper import expiry
from cantle.keeper.courier import Courier
from cantle.keeper.webhook import Target, WebhookReceiver, sign
from cantle.model.device import DeviceStatus
from cantle.model.event import Answer as Outcome
from cantle.model.event import Channel, Event
from cantle.store.tables import leases
from cantle.store.types import database_now

SECRET = b"0123456789abcdef01234567"


def receiver(
    listener: Listener, *secrets: bytes, path: str = "/hook?for=cantle", call_s: float = 20.0
) -> WebhookReceiver:
    """One that sends to the listener."""
    return WebhookReceiver(Target(listener.url + path, secrets or (SECRET,), call_s=call_s))


def deliver(cloud: Cloud, *secrets: bytes) -> list[Request]:
    """Send all there is; what came."""
    courier = Courier(cloud.db, receiver(cloud.listener, *secrets), stop=threading.Event())
    while courier.round():
        pass
    return cloud.listener.requests


def kinds(requests: list[Request]) -> list[str]:
    """Their types, in order."""
    return [request.json["type"] for request in requests]


def test_a_lease_is_told_from_its_units_being_ready_to_their_being_back(cloud: Cloud) -> None:
    lease = create_lease(cloud.db, ALICE, profile_name="vgpu", workload="vm1")
    cloud.host.obey()
    ready = ["lease.pending", "arq.bound", "lease.active"]
    assert kinds(deliver(cloud)) == ready
    release_lease(cloud.db, ALICE, lease.uuid)
    assert kinds(deliver(cloud)) == [*ready, "lease.releasing"], "released means that the units are back"
    cloud.host.obey()
    told = deliver(cloud)
    assert kinds(told) == [*ready, "lease.releasing", "lease.released"]
    assert told[2].json["data"] == {
        "uuid": lease.uuid,
        "state": "active",
        "profile_name": "vgpu",
        "project_id": "alice-project",
        "owner": "alice",
        "workload": "vm1",
        "hostname": "compute-1",
        "expires_at": None,
        "on_expiry": "detach",
        "reason_code": None,
        "reason": None,
    }
    assert dt.datetime.fromisoformat(told[2].json["timestamp"]).tzinfo is not None


def test_a_lease_whose_unit_fails_is_told_with_the_reason(cloud: Cloud) -> None:
    create_lease(cloud.db, ALICE, profile_name="vgpu")
    cloud.host.refusing["*"] = "mdev-no-space"
    cloud.host.obey()
    told = deliver(cloud)
    assert kinds(told) == ["lease.pending", "arq.failed", "lease.failed"]
    assert {request.json["data"]["reason_code"] for request in told[1:]} == {"mdev-no-space"}


def test_a_lease_that_expires_is_told_before_and_when_its_time_is_over_and_when_its_units_are_back(
    cloud: Cloud,
) -> None:
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    lease = create_lease(cloud.db, ALICE, profile_name="vgpu", expires_at=tomorrow)
    cloud.host.obey()
    renew_lease(cloud.db, ALICE, lease.uuid, tomorrow + dt.timedelta(days=1))
    with cloud.db.write() as connection:
        connection.execute(update(leases).values(expires_at=database_now(-1)))
    expiry.sweep(cloud.db)
    told = deliver(cloud)
    assert kinds(told)[1:] == [
        *("arq.bound", "lease.active", "lease.renewed"),
        *("lease.expiring", "lease.expired", "lease.releasing"),
    ]
    assert [one.json["data"]["state"] for one in told[-3:]] == ["active", "active", "releasing"]
    assert told[-3].json["data"]["on_expiry"] == "detach"
    cloud.host.obey()
    assert kinds(deliver(cloud))[-1] == "lease.released"


def test_that_a_lease_without_units_is_over_is_told_before_its_release(cloud: Cloud) -> None:
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    create_lease(cloud.db, ALICE, profile_name="vgpu", expires_at=tomorrow)
    cloud.host.refusing["*"] = "mdev-no-space"
    cloud.host.obey()
    cloud.host.refusing.clear()
    cloud.host.obey()
    with cloud.db.write() as connection:
        connection.execute(update(leases).values(expires_at=database_now(-1)))
    expiry.sweep(cloud.db)
    assert kinds(deliver(cloud))[-3:] == ["lease.expiring", "lease.expired", "lease.released"]


def test_what_operators_want_of_a_device_is_told(cloud: Cloud) -> None:
    (device,) = list_devices(cloud.db)
    set_status(cloud.db, ADMIN, device.uuid, DeviceStatus.MAINTAINING)
    set_status(cloud.db, ADMIN, device.uuid, DeviceStatus.MAINTAINING)
    told = deliver(cloud)
    assert kinds(told) == ["device.status"], "again is no news"
    its = {"uuid": device.uuid, "hostname": "compute-1", "address": device.address, "model": device.model}
    assert told[0].json["data"] == {**its, "status": "maintaining", "was": "enabled"}


def test_a_long_reason_is_cut(cloud: Cloud) -> None:
    create_lease(cloud.db, ALICE, profile_name="vgpu")
    cloud.host.refusing["*"] = "x" * 5000
    cloud.host.obey()
    (_pending, failed, _lease) = deliver(cloud)
    assert len(failed.json["data"]["reason"]) == 1000


def test_the_signature_is_that_of_standard_webhooks(cloud: Cloud) -> None:
    cloud.bound()
    (request,) = deliver(cloud)
    assert request.path == "/hook?for=cantle"
    uuid, stamp = request.headers["webhook-id"], request.headers["webhook-timestamp"]
    (row,) = cloud.outbox(Channel.WEBHOOK)
    assert uuid == row.uuid
    expected = hmac.new(SECRET, f"{uuid}.{stamp}.".encode() + request.body, hashlib.sha256).digest()
    assert request.headers["webhook-signature"] == "v1," + base64.b64encode(expected).decode()
    assert request.headers["Content-Type"] == "application/json"


def test_the_example_of_the_specification_comes_out_the_same() -> None:
    """The published example of Standard Webhooks' reference libraries."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    signed = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_while_a_key_is_changed_each_makes_a_signature(cloud: Cloud) -> None:
    cloud.bound()
    (request,) = deliver(cloud, SECRET, b"another-key-of-24-bytes!")
    signatures = request.headers["webhook-signature"].split(" ")
    assert len(set(signatures)) == 2
    assert all(one.startswith("v1,") for one in signatures)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((500, {}, {}), "it answered 500"),
        ((404, {}, {}), "it answered 404"),
        ((302, {}, {"Location": "/elsewhere"}), "redirect, which is not followed"),
        (CLOSE, "cannot be reached"),
        (HANG, "cannot be reached"),
        (DRIP, "cannot be reached"),
    ],
)
def test_an_event_that_is_not_taken_is_sent_again_with_the_same_id(cloud: Cloud, answer: Answer, said: str) -> None:
    cloud.bound()
    cloud.listener.answers = [answer]
    impatient = receiver(cloud.listener, call_s=0.5 if said == "cannot be reached" else 20.0)
    Courier(cloud.db, impatient, stop=threading.Event()).round()
    (row,) = cloud.outbox(Channel.WEBHOOK)
    assert row.outcome is None
    assert said in row.problem
    cloud.time_passes()
    Courier(cloud.db, receiver(cloud.listener), stop=threading.Event()).round()
    first, second = cloud.listener.requests
    assert first.path == second.path
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert cloud.outcomes(Channel.WEBHOOK) == ["delivered"]


def test_a_receiver_says_when_it_wants_to_be_asked_again(cloud: Cloud) -> None:
    cloud.bound()
    cloud.listener.answers = [(429, {}, {"Retry-After": "900"})]
    deliver(cloud)
    (row,) = cloud.outbox(Channel.WEBHOOK)
    assert (row.due_at - row.created_at).total_seconds() > 800


def test_an_answer_without_end_is_not_read_to_it() -> None:
    with listening() as listener:
        listener.always = (200, "x" * 5_000_000, {})
        event = Event(1, str(uuid4()), str(uuid4()), "arq.bound", "{}", dt.datetime.now(dt.UTC))
        (verdict,) = receiver(listener).send([event])
        assert verdict.answer is Outcome.DELIVERED


def test_a_receiver_that_is_not_there_is_tried_once_a_batch(cloud: Cloud) -> None:
    for _ in range(3):
        cloud.start()
    cloud.host.obey()
    cloud.listener.always = CLOSE
    Courier(cloud.db, receiver(cloud.listener), stop=threading.Event()).round()
    assert len(cloud.listener.requests) == 1
    assert cloud.outcomes(Channel.WEBHOOK) == [None] * 3


def test_requests_that_are_only_made_are_not_told(cloud: Cloud) -> None:
    create_arqs(cloud.db, ALICE, "vgpu")
    assert cloud.outbox(Channel.WEBHOOK) == []
