"""A host without an IOMMU: its cards go to containers, and to no virtual machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.agent.service import Service, running, until

from cantle import simulate
from cantle.attach import cdi
from cantle.engine import arq, bind
from cantle.engine.bind import Bind
from cantle.engine.capacity import list_capacity
from cantle.engine.lease import create_lease
from cantle.errors import Conflict, NoCapacity
from cantle.model.attach_handle import AttachType
from cantle.model.attachment import Attachment
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.lease import LeaseState
from cantle.simulate import description

CARD = "0000:01:00.0"
HOST = f"""
name: node1
iommu: none
functions:
  - {{address: "{CARD}", vendor: "10de", device: "1db4", class: "030200", driver: nvidia}}
""".encode()


@pytest.fixture
def host(tmp_path: Path) -> simulate.SimulatedRoot:
    """It has one card."""
    return simulate.build(description.parse(HOST, "here"), tmp_path / "host")


def test_its_card_goes_to_a_container_and_back_and_stays_on_its_driver(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, host, tmp_path / "agent"):
        until(lambda: service.free() == {CARD: 1})
        guest = Attachment.parse("cdi:train")
        made = create_lease(service.db, LOCAL_ADMIN, profile_name="card", attachment=guest)
        lease = service.settled(made.uuid)
        assert lease.state is LeaseState.ACTIVE
        assert lease.arqs[0].attach_handle_type == AttachType.NODES
        [device] = json.loads(cdi.read(host, lease.uuid) or b"")["devices"]
        assert {"path": "/dev/nvidia0", "type": "c", "permissions": "rw"} in device["containerEdits"]["deviceNodes"]
        assert host.link_name(f"sys/bus/pci/devices/{CARD}/driver") == "nvidia"
        assert service.give_back(lease).state is LeaseState.RELEASED
        assert service.free() == {CARD: 1}


@pytest.mark.parametrize("guest", [None, "libvirt:v1"])
def test_it_goes_to_no_virtual_machine_and_it_is_said_why(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path, guest: str | None
) -> None:
    attachment = Attachment.parse(guest) if guest else None
    with running(service, host, tmp_path / "agent"):
        until(lambda: service.free() == {CARD: 1})
        with pytest.raises(NoCapacity, match="goes to containers alone") as caught:
            create_lease(service.db, LOCAL_ADMIN, profile_name="card", attachment=attachment)
        assert "--attach lxc:NAME" in str(caught.value.details["explanation"])
        assert "containers-only" in str(caught.value.details["explanation"])


def test_no_compute_service_can_bind_it(service: Service, host: simulate.SimulatedRoot, tmp_path: Path) -> None:
    with running(service, host, tmp_path / "agent"):
        until(lambda: service.free() == {CARD: 1})
        [provider] = [one.rp_uuid for one in list_capacity(service.db)]
        [made] = arq.create_arqs(service.db, LOCAL_ADMIN, profile_name="card")
        one = Bind(made.uuid, "node1", provider, "11111111-2222-4333-8444-555555555555")
        with pytest.raises(Conflict, match="goes to containers alone") as caught:
            bind.bind(service.db, LOCAL_ADMIN, [one])
        assert caught.value.code == "containers-only"
