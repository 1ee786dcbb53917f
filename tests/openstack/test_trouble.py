"""Boots while something is broken: a card, the keeper, the API."""

from __future__ import annotations

import datetime as dt
import json
import signal
from collections.abc import Iterator

import pytest
from tests.openstack.servers import T4, Servers
from tests.openstack.stack import HOSTS, Stack
from tests.real.processes import wait_until

from cantle.model.event import Answer, Event
from cantle.nova.event import NovaReceiver

#: Of a slice that somebody makes by hand. While it is there, the T4 makes no slices of another type.
BY_HAND = "0e6f1c52-0d3c-4a39-9d0e-0a2f8c1f7f10"
_CREATE = f"sys/bus/pci/devices/{T4}/mdev_supported_types/nvidia-222/create"


@pytest.fixture
def held_up(servers: Servers) -> Iterator[Servers]:
    """No host does anything for now: its agent is stopped, as on a machine that hangs. They go on after the test at the latest."""
    for host in HOSTS:
        servers.stack.cantle.services[host].signal(signal.SIGSTOP)
    yield servers
    go_on(servers)


def go_on(servers: Servers) -> None:
    """The agents go on."""
    for host in HOSTS:
        servers.stack.cantle.services[host].signal(signal.SIGCONT)


def bind_started(servers: Servers, uuid: str) -> str:
    """The request of a server whose boot waits for it."""
    wait_until(
        "its bind has begun", lambda: [arq["state"] for arq in servers.arqs(uuid)] == ["BindStarted"], seconds=60
    )
    return str(servers.arqs(uuid)[0]["uuid"])


def wait_until_nova_waits(servers: Servers, uuid: str) -> None:
    """The compute has asked whether the server's requests are bound, was told that they are not, and waits for the events."""
    said = f"accelerator_requests?instance={uuid} used request id"
    wait_until("the compute waits for events", lambda: said in servers.computes_say(), seconds=60)


def test_the_boot_waits_for_a_slow_host_and_goes_on_with_the_event(held_up: Servers) -> None:
    uuid = held_up.create("waits", "slice")
    arq = bind_started(held_up, uuid)
    wait_until_nova_waits(held_up, uuid)
    assert held_up.show(uuid)["status"] == "BUILD"
    go_on(held_up)
    held_up.wait_for(uuid, "ACTIVE")
    assert [one["state"] for one in held_up.arqs(uuid)] == ["Bound"]
    assert held_up.event_received(arq)
    assert held_up.outcomes(arq) == [("completed", "delivered")]


def test_a_slice_that_cannot_be_made_fails_the_boot_soon_and_leaves_nothing(held_up: Servers) -> None:
    uuid = held_up.create("broken", "slice")
    arq = bind_started(held_up, uuid)
    wait_until_nova_waits(held_up, uuid)
    for host in HOSTS:
        held_up.stack.cantle.kernel(host).write(_CREATE, BY_HAND)
    go_on(held_up)
    try:
        # Nova would wait for 300 s.
        failed = held_up.wait_for(uuid, "ERROR", seconds=60)
        assert "accelerator" in failed["fault"]["message"]
        assert held_up.event_received(arq)
        wait_until("Nova has deleted the request", lambda: held_up.arqs(uuid) == [])
        assert held_up.allocation(uuid) == {}
    finally:
        for host in HOSTS:
            held_up.stack.cantle.kernel(host).write(f"sys/bus/mdev/devices/{BY_HAND}/remove", "1")
    held_up.delete(uuid)
    wait_until("the T4s are as before", lambda: held_up.free("VGPU") == 8 * len(HOSTS), seconds=120)


@pytest.mark.parametrize("killed", [("keeper",), ("keeper", "api", "agents")], ids="-".join)
def test_an_event_of_a_keeper_that_was_killed_is_delivered_by_the_next_one(
    held_up: Servers, killed: tuple[str, ...]
) -> None:
    uuid = held_up.create("killed", "slice")
    arq = bind_started(held_up, uuid)
    wait_until_nova_waits(held_up, uuid)
    cantle = held_up.stack.cantle
    cantle.kill("keeper")
    go_on(held_up)
    wait_until("the host has bound it", lambda: [one["state"] for one in held_up.arqs(uuid)] == ["Bound"])
    for name in killed[1:]:
        cantle.kill(name)
    assert held_up.show(uuid)["status"] == "BUILD"
    assert not held_up.event_received(arq)
    for name in reversed(killed):
        cantle.start(name)
    held_up.wait_for(uuid, "ACTIVE")
    assert held_up.event_received(arq)


@pytest.fixture
def out_of_service(servers: Servers) -> Iterator[Servers]:
    """All M40s are out of service, and Placement has not heard of it: no keeper runs. It is undone after the test."""
    servers.stack.cantle.kill("keeper")
    servers.serve("M40", usable=False)
    yield servers
    servers.serve("M40", usable=True)
    servers.stack.cantle.start("keeper")


def test_a_bind_that_is_refused_fails_the_boot_at_once_and_leaves_nothing(out_of_service: Servers) -> None:
    """Placement is behind for a moment: what it offers was taken out of service."""
    uuid = out_of_service.create("refused", "whole")
    failed = out_of_service.wait_for(uuid, "ERROR", seconds=60)
    assert "Failed to bind accelerator requests" in failed["fault"]["message"]
    assert out_of_service.arqs(uuid) == []
    out_of_service.delete(uuid)
    assert out_of_service.allocation(uuid) == {}


def test_a_login_that_is_no_administrator_is_told_that_nova_hides_the_servers_from_it(servers: Servers) -> None:
    """Nova's policy lets the role ``service`` send events; what it then looks for is limited to the sender's own project."""
    uuid = servers.boot("hidden", "slice")
    (arq,) = servers.arqs(uuid)
    body = {"name": "accelerator-request-bound", "server_uuid": uuid, "tag": arq["uuid"], "status": "completed"}
    event = Event(1, "e1", arq["uuid"], body["name"], json.dumps(body), dt.datetime.now(dt.UTC))
    (hidden,) = NovaReceiver(servers.api("robot", "compute")).send([event])
    assert hidden.answer is Answer.REFUSED
    assert "needs the role admin" in hidden.why
    (heard,) = NovaReceiver(servers.api("cantle", "compute")).send([event])
    assert heard.answer is Answer.DELIVERED


@pytest.mark.parametrize(("user", "said"), [("robot", "Warning"), ("cantle", "Success")])
def test_the_check_before_an_upgrade_says_whether_nova_will_listen(stack: Stack, user: str, said: str) -> None:
    done = stack.cantle.status(user)
    assert f"| Check: Events to Nova{' ' * 52}|\n| Result: {said} " in done.out
    assert done.status == (0 if said == "Success" else 1), done.out
