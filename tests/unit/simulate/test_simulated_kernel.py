"""The simulated kernel answers as the real one does (sources: drivers/vfio/mdev, drivers/base, drivers/pci)."""

from __future__ import annotations

import errno
import shutil
import uuid as uuids
from pathlib import Path

import pytest
from tests.unit.simulate.shown import FIRST, M40, SECOND, T4, TYPES, everything, offered, refused

from cantle import simulate
from cantle.errors import BadRequest, HostError
from cantle.kernel import iommu, mdev, pci


def test_a_fresh_t4_shows_the_card_of_the_worked_example(t4: simulate.SimulatedRoot) -> None:
    functions, problems = pci.functions(t4)
    assert problems == []
    card = next(one for one in functions if str(one.address) == T4)
    assert (card.vendor_id, card.device_id, card.class_id, card.driver, card.iommu_group) == (
        "10de",
        "1eb8",
        "030200",
        "nvidia",
        41,
    )
    [offer] = [one for one in mdev.types(t4, T4) if one.type_id == "nvidia-223"]
    assert (offer.name, offer.device_api, offer.available_instances) == ("GRID T4-2B", "vfio-pci", 8)
    assert "framebuffer=2048M" in (offer.description or "")
    assert iommu.enabled(t4)
    assert mdev.devices(t4) == []


def test_a_host_whose_directory_was_deleted_says_so_and_stops_nothing(t4: simulate.SimulatedRoot) -> None:
    shutil.rmtree(t4.path)
    with pytest.raises(HostError) as caught:
        t4.write(f"{TYPES}/nvidia-223/create", FIRST)
    assert caught.value.code == "simulation-gone"
    assert mdev.devices(t4) == []


def test_the_files_say_the_same_as_the_uevent(t4: simulate.SimulatedRoot) -> None:
    base = f"sys/bus/pci/devices/{T4}"
    assert t4.read(f"{base}/class") == "0x030200"
    assert "PCI_CLASS=30200\nPCI_ID=10DE:1EB8\nPCI_SUBSYS_ID=10DE:12A2\n" in t4.read(f"{base}/uevent")
    assert t4.read(f"{base}/driver_override") == "(null)"
    assert t4.link_name(f"sys/class/mdev_bus/{T4}") == T4


def test_creating_an_mdev_makes_all_its_files(t4: simulate.SimulatedRoot) -> None:
    t4.write(f"{TYPES}/nvidia-223/create", FIRST)
    device = f"sys/bus/mdev/devices/{FIRST}"
    assert t4.link_name(f"{device}/mdev_type") == "nvidia-223"
    group = t4.link_name(f"{device}/iommu_group")
    assert t4.names(f"sys/kernel/iommu_groups/{group}/devices") == [FIRST]
    assert t4.exists(f"dev/vfio/{group}")
    assert t4.names(f"{TYPES}/nvidia-223/devices") == [FIRST]
    assert mdev.device(t4, FIRST) == mdev.MdevDevice(FIRST, "nvidia-223", T4)


def test_removing_it_leaves_the_host_as_it_was(t4: simulate.SimulatedRoot) -> None:
    before = everything(t4)
    t4.write(f"{TYPES}/nvidia-223/create", FIRST)
    t4.write(f"sys/bus/mdev/devices/{FIRST}/remove", "1")
    assert everything(t4) == before


def test_on_a_card_of_one_type_at_a_time_its_siblings_drop_to_none_and_come_back(t4: simulate.SimulatedRoot) -> None:
    before = offered(t4, T4)
    assert (before["nvidia-222"], before["nvidia-223"], before["nvidia-234"]) == (16, 8, 1)
    t4.write(f"{TYPES}/nvidia-223/create", FIRST)
    assert offered(t4, T4) == {type_id: 7 if type_id == "nvidia-223" else 0 for type_id in before}
    assert refused(lambda: t4.write(f"{TYPES}/nvidia-222/create", SECOND)) == errno.ENOSPC
    t4.write(f"sys/bus/mdev/devices/{FIRST}/remove", "1\n")
    assert offered(t4, T4) == before


def test_a_parent_of_mixed_types_shares_its_capacity(mtty: simulate.SimulatedRoot) -> None:
    types = "sys/class/mdev_bus/mtty/mdev_supported_types"
    assert offered(mtty, "mtty") == {"mtty-1": 24, "mtty-2": 12}
    mtty.write(f"{types}/mtty-2/create", FIRST)
    mtty.write(f"{types}/mtty-1/create", SECOND)
    assert offered(mtty, "mtty") == {"mtty-1": 21, "mtty-2": 10}
    assert mdev.device(mtty, FIRST) == mdev.MdevDevice(FIRST, "mtty-2", "mtty")


def test_a_full_card_has_no_space_left(t4: simulate.SimulatedRoot) -> None:
    for number in range(8):
        t4.write(f"{TYPES}/nvidia-223/create", str(uuids.UUID(int=number + 1)))
    assert refused(lambda: t4.write(f"{TYPES}/nvidia-223/create", FIRST)) == errno.ENOSPC
    assert len(mdev.devices(t4)) == 8


def test_a_uuid_can_be_used_once(t4: simulate.SimulatedRoot) -> None:
    t4.write(f"{TYPES}/nvidia-223/create", FIRST)
    assert refused(lambda: t4.write(f"{TYPES}/nvidia-223/create", FIRST)) == errno.EEXIST
    assert refused(lambda: t4.write(f"{TYPES}/nvidia-223/create", FIRST.upper())) == errno.EEXIST


@pytest.mark.parametrize("text", ["", "1", "no-uuid", FIRST + "0", FIRST.replace("-", ""), "../" + FIRST[3:]])
def test_a_malformed_uuid_is_invalid(t4: simulate.SimulatedRoot, text: str) -> None:
    assert refused(lambda: t4.write(f"{TYPES}/nvidia-223/create", text)) == errno.EINVAL


def test_an_mdev_that_a_guest_holds_is_busy_until_it_lets_go(t4: simulate.SimulatedRoot) -> None:
    t4.write(f"{TYPES}/nvidia-223/create", FIRST)
    t4.hold(FIRST, pid=77, command="qemu-system-x86")
    assert refused(lambda: t4.write(f"sys/bus/mdev/devices/{FIRST}/remove", "1")) == errno.EBUSY
    assert t4.read("proc/77/comm") == "qemu-system-x86"
    t4.let_go(77)
    t4.write(f"sys/bus/mdev/devices/{FIRST}/remove", "1")
    assert mdev.devices(t4) == []


@pytest.mark.parametrize(("text", "answer"), [("yes", errno.EINVAL), ("", errno.EINVAL), ("0", None)])
def test_remove_takes_a_number_and_a_zero_does_nothing(
    t4: simulate.SimulatedRoot, text: str, answer: int | None
) -> None:
    t4.write(f"{TYPES}/nvidia-223/create", FIRST)
    rel = f"sys/bus/mdev/devices/{FIRST}/remove"
    if answer is None:
        t4.write(rel, text)
    else:
        assert refused(lambda: t4.write(rel, text)) == answer
    assert len(mdev.devices(t4)) == 1


def test_files_that_are_not_there_or_not_writable_say_so(t4: simulate.SimulatedRoot) -> None:
    assert refused(lambda: t4.write(f"{TYPES}/nvidia-999/create", FIRST)) == errno.ENOENT
    assert refused(lambda: t4.write(f"sys/bus/mdev/devices/{FIRST}/remove", "1")) == errno.ENOENT
    assert refused(lambda: t4.write(f"{TYPES}/nvidia-223/name", "x")) == errno.EACCES
    with pytest.raises(HostError):
        t4.write("../outside", "x")


def driver(root: simulate.SimulatedRoot, address: str) -> str | None:
    return root.link_name(f"sys/bus/pci/devices/{address}/driver")


def test_a_card_goes_to_vfio_pci_by_its_override_and_back(t4: simulate.SimulatedRoot) -> None:
    before = everything(t4)
    t4.write(f"sys/bus/pci/devices/{M40}/driver_override", "vfio-pci")
    t4.write("sys/bus/pci/drivers/nvidia/unbind", M40)
    assert driver(t4, M40) is None
    assert "DRIVER" not in t4.read(f"sys/bus/pci/devices/{M40}/uevent")
    t4.write("sys/bus/pci/drivers_probe", M40)
    assert driver(t4, M40) == "vfio-pci"
    assert t4.exists("dev/vfio/37")
    t4.write(f"sys/bus/pci/devices/{M40}/driver_override", "\n")
    t4.write("sys/bus/pci/drivers/vfio-pci/unbind", M40)
    t4.write("sys/bus/pci/drivers_probe", f"{M40}\n")
    assert everything(t4) == before


def test_the_driver_core_refuses_as_the_real_one(t4: simulate.SimulatedRoot) -> None:
    drivers = "sys/bus/pci/drivers"
    assert refused(lambda: t4.write(f"{drivers}/nouveau/unbind", M40)) == errno.ENODEV
    assert refused(lambda: t4.write(f"{drivers}/nvidia/unbind", "0000:99:00.0")) == errno.ENODEV
    assert refused(lambda: t4.write(f"{drivers}/vfio-pci/bind", M40)) == errno.ENODEV
    assert refused(lambda: t4.write(f"{drivers}/nouveau/bind", M40)) == errno.EBUSY
    assert refused(lambda: t4.write(f"{drivers}/absent/bind", M40)) == errno.ENOENT
    assert refused(lambda: t4.write("sys/bus/pci/drivers_probe", "0000:99:00.0")) == errno.ENODEV
    assert refused(lambda: t4.write(f"sys/bus/pci/devices/{M40}/driver_override", "x" * 5000)) == errno.EINVAL


def test_a_probe_that_finds_no_driver_says_nothing(t4: simulate.SimulatedRoot) -> None:
    t4.write(f"sys/bus/pci/devices/{M40}/driver_override", "absent")
    t4.write("sys/bus/pci/drivers/nvidia/unbind", M40)
    t4.write("sys/bus/pci/drivers_probe", M40)
    assert driver(t4, M40) is None


def test_vfio_pci_refuses_a_function_without_a_group(tmp_path: Path) -> None:
    bare = simulate.description.parse(
        b'{name: bare, modules: [vfio-pci], functions: [{address: "0000:01:00.0", vendor: "10de", device: "1eb8", class: "030200"}]}',
        "test",
    )
    root = simulate.build(bare, tmp_path / "bare")
    root.write("sys/bus/pci/devices/0000:01:00.0/driver_override", "vfio-pci")
    assert refused(lambda: root.write("sys/bus/pci/drivers/vfio-pci/bind", "0000:01:00.0")) == errno.EINVAL
    root.write("sys/bus/pci/drivers_probe", "0000:01:00.0")
    assert driver(root, "0000:01:00.0") is None


def test_taking_the_drivers_card_away_takes_its_mdevs_and_types_too(t4: simulate.SimulatedRoot) -> None:
    before = everything(t4)
    t4.write(f"{TYPES}/nvidia-223/create", FIRST)
    t4.write("sys/bus/pci/drivers/nvidia/unbind", T4)
    assert mdev.devices(t4) == []
    assert mdev.parents(t4) == []
    t4.write("sys/bus/pci/drivers/nvidia/bind", T4)
    assert everything(t4) == before


def test_a_card_whose_mdev_is_held_keeps_its_driver(t4: simulate.SimulatedRoot) -> None:
    t4.write(f"{TYPES}/nvidia-223/create", FIRST)
    t4.hold(FIRST)
    assert refused(lambda: t4.write("sys/bus/pci/drivers/nvidia/unbind", T4)) == errno.EBUSY
    assert len(mdev.devices(t4)) == 1


def test_a_fault_hits_the_write_it_was_meant_for_once(t4: simulate.SimulatedRoot) -> None:
    t4.fail(errno.EIO, "/create", nth=2)
    t4.write(f"{TYPES}/nvidia-223/create", FIRST)
    assert refused(lambda: t4.write(f"{TYPES}/nvidia-223/create", SECOND)) == errno.EIO
    assert len(mdev.devices(t4)) == 1
    t4.write(f"{TYPES}/nvidia-223/create", SECOND)
    assert [path.rpartition("/")[2] for path, _ in t4.written] == ["create", "create"]


def test_a_fault_may_strike_after_the_work_was_done(t4: simulate.SimulatedRoot) -> None:
    t4.fail(errno.EIO, "/create", after=True)
    assert refused(lambda: t4.write(f"{TYPES}/nvidia-223/create", FIRST)) == errno.EIO
    assert len(mdev.devices(t4)) == 1


def test_nothing_can_hold_what_has_no_group(t4: simulate.SimulatedRoot) -> None:
    with pytest.raises(BadRequest) as caught:
        t4.hold(SECOND)
    assert caught.value.code == "simulation-no-group"
