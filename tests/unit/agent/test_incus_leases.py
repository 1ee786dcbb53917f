"""Leases into containers of Incus: the real engine and agent, a simulated kernel, a stand-in for the daemon."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.agent.service import M40, TOKEN, Service, running, until
from tests.unit.attach.incus_daemon import Daemon

from cantle import simulate
from cantle.api.app import agents_app
from cantle.api.settings import Settings
from cantle.engine.lease import create_lease
from cantle.model.attachment import Attachment
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.lease import Lease, LeaseState


@pytest.fixture
def daemon(t4: simulate.SimulatedRoot) -> Iterator[Daemon]:
    """Of the same host, with the container c1."""
    made = Daemon(t4)
    made.add("c1")
    yield made
    made.stop()


def borrow(service: Service) -> Lease:
    until(lambda: M40 in service.free())
    guest = Attachment.parse("incus:c1")
    return service.settled(create_lease(service.db, LOCAL_ADMIN, profile_name="card", attachment=guest).uuid)


def test_a_container_has_its_card_until_the_lease_is_released(
    service: Service, t4: simulate.SimulatedRoot, daemon: Daemon, tmp_path: Path
) -> None:
    before = copy.deepcopy(daemon.instances["c1"])
    with running(service, t4, tmp_path / "agent"):
        lease = borrow(service)
        assert (lease.state, str(lease.attachment)) == (LeaseState.ACTIVE, "incus:c1")
        given = {one["path"] for name, one in daemon.instances["c1"]["devices"].items() if lease.uuid in name}
        assert {"/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"} <= given
        assert "/dev/nvidia0" not in given
        assert t4.link_name(f"sys/bus/pci/devices/{M40}/driver") == "nvidia"
        assert service.give_back(lease).state is LeaseState.RELEASED
    assert daemon.instances["c1"] == before


def test_what_the_daemon_refuses_fails_the_lease_with_its_words(
    service: Service, t4: simulate.SimulatedRoot, daemon: Daemon, tmp_path: Path
) -> None:
    before = copy.deepcopy(daemon.instances["c1"])
    daemon.fault = "Failed to start device"
    with running(service, t4, tmp_path / "agent"):
        lease = borrow(service)
        assert (lease.state, lease.arqs[0].reason_code) == (LeaseState.FAILED, "incus-refused")
        assert "Failed to start device" in str(lease.arqs[0].reason)
        until(lambda: service.free()[M40] == 1)
    assert daemon.instances["c1"] == before


def test_a_virtual_machine_fails_the_lease_and_its_card_is_free_again(
    service: Service, t4: simulate.SimulatedRoot, daemon: Daemon, tmp_path: Path
) -> None:
    daemon.instances["c1"]["type"] = "virtual-machine"
    with running(service, t4, tmp_path / "agent"):
        lease = borrow(service)
        assert (lease.state, lease.arqs[0].reason_code) == (LeaseState.FAILED, "guest-not-container")
        until(lambda: service.free()[M40] == 1)


def test_a_host_without_incus_fails_the_lease_and_its_card_is_free_again(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, t4, tmp_path / "agent"):
        lease = borrow(service)
        assert (lease.state, lease.arqs[0].reason_code) == (LeaseState.FAILED, "incus-away")
        until(lambda: service.free()[M40] == 1)


def test_a_stopped_container_is_started_with_its_lease(
    service: Service, t4: simulate.SimulatedRoot, daemon: Daemon, tmp_path: Path
) -> None:
    daemon.instances["c1"].update(status="Stopped", status_code=102)
    with running(service, t4, tmp_path / "agent"):
        until(lambda: M40 in service.free())
        guest = Attachment.parse("incus:c1")
        made = create_lease(service.db, LOCAL_ADMIN, profile_name="card", attachment=guest, start=True)
        assert service.settled(made.uuid).state is LeaseState.ACTIVE
        assert daemon.instances["c1"]["status"] == "Running"


def test_a_new_host_whose_first_work_is_a_lease_that_starts_its_container_starts_it(
    service: Service, t4: simulate.SimulatedRoot, daemon: Daemon, tmp_path: Path
) -> None:
    """The agent, which had no memory yet, took the unit for one that it had told ready in an earlier life."""
    daemon.instances["c1"].update(status="Stopped", status_code=102)
    application = agents_app(service.db, Settings(agents_token=TOKEN))
    made: list[str] = []

    def meanwhile(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "GET" and not made:
            guest = Attachment.parse("incus:c1")
            lease = create_lease(service.db, LOCAL_ADMIN, profile_name="card", attachment=guest, start=True)
            made.append(lease.uuid)
        answer: Iterable[bytes] = application(environ, start_response)
        return answer

    service.down()
    service.up(meanwhile)
    with running(service, t4, tmp_path / "agent"):
        until(lambda: made)
        assert service.settled(made[0]).state is LeaseState.ACTIVE
        assert daemon.instances["c1"]["status"] == "Running"
