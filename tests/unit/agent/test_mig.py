"""MIG slices: each goes to a container with the nodes that open it, and no other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.unit.agent.service import Service, running, until
from tests.unit.drivers.hosts import devices

from cantle import simulate
from cantle.attach import cdi, entry, lxc
from cantle.drivers.nvidia import NvidiaDriver
from cantle.engine.capacity import list_capacity
from cantle.engine.lease import create_lease
from cantle.engine.profile import create_profile
from cantle.errors import Conflict, HostError, NoCapacity
from cantle.kernel import node
from cantle.kernel.char_device import Node
from cantle.model.attachment import Attachment
from cantle.model.device import Health, Mode
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.lease import Lease, LeaseState
from cantle.model.pci import PciAddress
from cantle.wire.inventory import DeviceReport

CUT = "0000:07:00.0"
WHOLE = "0000:0f:00.0"
#: The second card of the bus has the lower minor, as on real hosts: 0000:07:00.0 is /dev/nvidia1.
CARD = "/dev/nvidia1"
SHARED = {CARD, "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}


@pytest.fixture
def host(tmp_path: Path) -> simulate.SimulatedRoot:
    """Two A100, one of them cut, and a container that is stopped."""
    root = simulate.build(simulate.load("mig"), tmp_path / "mig")
    place = Path(root.path)
    (place / "var/lib/lxc/c1").mkdir(parents=True)
    (place / "var/lib/lxc/c1/config").write_text("# by hand\n")
    (place / "sys/fs/cgroup").mkdir(parents=True)
    (place / "sys/fs/cgroup/cgroup.controllers").write_text("cpu\n")
    return root


def card(host: simulate.SimulatedRoot) -> DeviceReport:
    return devices(host, NvidiaDriver())[CUT]


def caps(nodes: tuple[Node, ...]) -> set[str]:
    return {one.path for one in nodes if not one.shared}


def test_slices_are_offered_by_size_and_the_card_is_not_lent_whole(host: simulate.SimulatedRoot) -> None:
    found = card(host)
    assert (found.mode, found.health) == (Mode.MIG, Health.OK)
    assert found.labels == {"guests": "containers", "isolation": "hardware"}
    offered = {one.name.rpartition("_")[2]: [unit.key for unit in one.handles] for one in found.deployables}
    assert offered == {"1g.5gb": ["gi5ci0", "gi7ci0", "gi8ci0"], "3g.20gb": ["gi1ci0"]}
    assert {one.resource_class for one in found.deployables} == {"CUSTOM_MIG"}
    assert "CUSTOM_MIG_3G_20GB" in found.deployables[1].traits
    assert devices(host, NvidiaDriver())[WHOLE].mode is Mode.PASSTHROUGH


def test_compute_instances_that_share_a_gpu_instance_are_not_told_to_be_kept_apart_by_hardware(
    host: simulate.SimulatedRoot,
) -> None:
    gpu_instance = Path(host.path, "proc/driver/nvidia/capabilities/gpu1/mig/gi5")
    shutil.copytree(gpu_instance / "ci0", gpu_instance / "ci1")
    assert card(host).labels["isolation"] == "unknown"


def test_each_slice_has_two_nodes_of_its_own_by_the_minors_that_the_kernel_says(host: simulate.SimulatedRoot) -> None:
    address = PciAddress.parse(CUT)
    first, second = node.of_slice(host, address, 5, 0), node.of_slice(host, address, 7, 0)
    assert len(caps(first)) == len(caps(second)) == 2
    assert not caps(first) & caps(second)
    assert {one.path for one in first} - caps(first) == SHARED
    place = Path(host.path, "proc/driver/nvidia/capabilities/gpu1/mig/gi5/access")
    place.unlink()
    place.write_text("DeviceFileMinor: 77\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    assert "/dev/nvidia-caps/nvidia-cap77" in caps(node.of_slice(host, address, 5, 0))


def test_a_driver_that_only_has_the_list_of_minors_is_read_too(host: simulate.SimulatedRoot) -> None:
    place = Path(host.path, "proc/driver/nvidia")
    shutil.rmtree(place / "capabilities")
    (place.parent / "nvidia-caps").mkdir()
    (place.parent / "nvidia-caps/mig-minors").write_text(
        "config 1\nmonitor 2\ngpu1/gi5/access 183\ngpu1/gi5/ci0/access 184\n"
    )
    found = node.of_slice(host, PciAddress.parse(CUT), 5, 0)
    assert caps(found) == {"/dev/nvidia-caps/nvidia-cap183", "/dev/nvidia-caps/nvidia-cap184"}


def test_where_the_sizes_cannot_be_told_the_slices_are_offered_without_and_it_is_said(
    host: simulate.SimulatedRoot,
) -> None:
    host.fail_tool(HostError("tool-not-run", "there is no nvidia-smi"))
    found = card(host)
    assert (found.mode, found.health) == (Mode.MIG, Health.DEGRADED)
    assert "there is no nvidia-smi" in str(found.reason)
    assert [len(one.handles) for one in found.deployables] == [4]


def test_a_slice_that_is_gone_is_offered_no_more_and_cannot_be_entered(host: simulate.SimulatedRoot) -> None:
    shutil.rmtree(Path(host.path, "proc/driver/nvidia/capabilities/gpu1/mig/gi5"))
    assert [unit.key for unit in card(host).deployables[0].handles] == ["gi7ci0", "gi8ci0"]
    with pytest.raises(Conflict) as caught:
        entry.nodes(host, f"{CUT}/gi5/ci0")
    assert caught.value.code == "mig-slice-missing"


def test_a_machines_slices_are_named_for_container_engines_too(host: simulate.SimulatedRoot) -> None:
    found, problems = cdi.cards(host)
    assert set(found) == {CUT, WHOLE, *(f"{CUT}:gi{number}:ci0" for number in (1, 5, 7, 8))}
    assert found[f"{CUT}:gi5:ci0"] == node.of_slice(host, PciAddress.parse(CUT), 5, 0)
    assert problems == []
    assert json.loads(cdi.document(cdi.CARD_KIND, found))["cdiVersion"] == "0.5.0"


def free(service: Service) -> int:
    return sum(one.free for one in list_capacity(service.db))


def borrow(service: Service, guest: str | None, count: int = 1) -> Lease:
    attachment = Attachment.parse(guest) if guest else None
    made = create_lease(service.db, LOCAL_ADMIN, profile_name="small", count=count, attachment=attachment)
    return service.settled(made.uuid)


def test_leases_of_containers_have_the_nodes_of_exactly_their_slices(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    groups = [{"resources:CUSTOM_MIG": "1", "trait:CUSTOM_MIG_1G_5GB": "required"}]
    create_profile(service.db, LOCAL_ADMIN, name="small", groups=groups)
    with running(service, host, tmp_path / "agent"):
        until(lambda: free(service) == 5)
        first, second = borrow(service, "cdi:train", 2), borrow(service, "lxc:c1")
        assert (first.state, second.state) == (LeaseState.ACTIVE, LeaseState.ACTIVE)
        [device] = json.loads(cdi.read(host, first.uuid) or b"")["devices"]
        ours = {one["path"] for one in device["containerEdits"]["deviceNodes"]}
        theirs = {one.path for one in lxc.parse_entries(host.read(lxc.book("c1", second.uuid)) + "\n")}
        assert ours & theirs == SHARED
        assert (len(ours - SHARED), len(theirs - SHARED)) == (4, 2)
        with pytest.raises(NoCapacity):
            borrow(service, "cdi:more")
        assert service.give_back(first).state is LeaseState.RELEASED
        assert borrow(service, "cdi:more").state is LeaseState.ACTIVE


def test_no_virtual_machine_has_a_slice(service: Service, host: simulate.SimulatedRoot, tmp_path: Path) -> None:
    create_profile(service.db, LOCAL_ADMIN, name="small", groups=[{"resources:CUSTOM_MIG": "1"}])
    with running(service, host, tmp_path / "agent"):
        until(lambda: free(service) == 5)
        for guest in (None, "libvirt:v1"):
            with pytest.raises(NoCapacity, match="goes to containers alone"):
                borrow(service, guest)
