"""What belongs to a card, and when it cannot be taken from the host."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.kernel_steps.pci_bus import BUS, GROUPS, PLACE, PciBus

from cantle.errors import CantleError, Conflict, HostError, NotFound
from cantle.kernel import unit
from cantle.model.pci import PciAddress

CARD = PciAddress.parse("0000:01:00.0")


def addresses(found: unit.Unit) -> list[str]:
    return [str(function.address) for function in found.functions]


def objections(host: PciBus, address: PciAddress = CARD) -> list[CantleError]:
    found = unit.find(host, address)
    given = unit.objections(host, found)
    if given:
        with pytest.raises(Conflict) as caught:
            unit.check(host, found)
        assert caught.value.message == given[0].message
        assert caught.value.details["objections"] == [one.message for one in given]
    else:
        unit.check(host, found)
    return given


def test_a_card_is_all_functions_of_its_slot_and_viable_behind_its_bridge(host: PciBus) -> None:
    assert addresses(unit.find(host, CARD)) == [f"0000:01:00.{number}" for number in range(4)]
    assert objections(host) == []


def test_declared_companions_in_another_slot_go_along_and_other_links_do_not(host: PciBus) -> None:
    host.driver("snd_sof", "8086:a0c8")
    host.function("0000:04:00.0", "040300", "8086:a0c8", driver="snd_sof", group=4)
    host.put(f"{PLACE}/0000:01:00.0/consumer:pci:0000:04:00.0/status", "active\n")
    host.put(f"{PLACE}/0000:01:00.0/supplier:pci:0000:02:00.0/status", "active\n")
    host.put(f"{PLACE}/0000:01:00.0/supplier:platform:fixed/status", "active\n")
    assert addresses(unit.find(host, CARD))[1:] == [
        "0000:01:00.1",
        "0000:01:00.2",
        "0000:01:00.3",
        "0000:04:00.0",
    ]
    assert objections(host) == []


def test_virtual_functions_are_units_by_themselves_although_they_count_on_in_the_card_s_slot(host: PciBus) -> None:
    host.function("0000:01:00.4", "030200", "10de:1e05", group=5, physfn="0000:01:00.0")
    assert "0000:01:00.4" not in addresses(unit.find(host, CARD))
    assert addresses(unit.find(host, PciAddress.parse("0000:01:00.4"))) == ["0000:01:00.4"]


def test_nothing_at_the_address_is_said_so(host: PciBus) -> None:
    with pytest.raises(NotFound, match=r"no PCI device at 0000:09:00\.0") as caught:
        unit.find(host, PciAddress.parse("09:00.0"))
    assert caught.value.code == "pci-device-not-found"


def test_another_card_at_the_address_than_was_meant_is_refused(host: PciBus) -> None:
    assert unit.find(host, CARD, "10de:1e04").card.address == CARD
    with pytest.raises(Conflict, match=r"0000:01:00\.0 is 10de:1e04 now, not 10de:1eb8") as caught:
        unit.find(host, CARD, "10de:1eb8")
    assert caught.value.code == "other-hardware"


def test_a_function_that_cannot_be_read_is_an_error_and_not_an_absent_companion(host: PciBus) -> None:
    (host.base / PLACE / "0000:01:00.1" / "sriov_totalvfs").mkdir()
    with pytest.raises(HostError):
        unit.find(host, CARD)


@pytest.mark.parametrize("class_id", ["068000", "020000", "010802", "120000"])
def test_any_member_of_the_group_on_a_host_driver_is_foreign_and_named_with_class_and_driver(
    host: PciBus, class_id: str
) -> None:
    host.function("0000:05:00.0", class_id, "10de:2235", driver="nvidia", group=1)
    (objection,) = objections(host)
    assert objection.code == "iommu-group-shared"
    assert f"0000:05:00.0 (class {class_id[:4]}" in objection.message
    assert "driver nvidia)" in objection.message
    assert "IOMMU group 1 of 0000:01:00.0, 0000:01:00.1" in objection.message


@pytest.mark.parametrize("class_id", ["060400", "060000", "060401"])
def test_bridges_of_exactly_two_classes_are_ignored_whatever_drives_them(host: PciBus, class_id: str) -> None:
    host.driver("shpchp", "8086:244e")
    host.function("0000:05:00.0", class_id, "8086:244e", driver="shpchp", group=1)
    assert objections(host) == []


def test_members_on_vfio_on_a_vfio_variant_driver_or_on_none_do_not_matter(host: PciBus) -> None:
    host.function("0000:05:00.0", "020000", "8086:10d3", driver="vfio-pci", group=1)
    host.function("0000:05:00.1", "020000", "8086:10d3", group=1)
    host.driver("mlx5_vfio_pci")
    host.function("0000:05:00.2", "020000", "15b3:101e", driver="mlx5_vfio_pci", group=1)
    host.put(f"{PLACE}/0000:05:00.2/vfio-dev/vfio0/dev", "511:0\n")
    assert objections(host) == []


def test_a_member_that_is_no_pci_function_is_foreign_if_a_driver_has_it(host: PciBus) -> None:
    host.put(f"{GROUPS}/1/devices/arm-smmu-test/modalias", "platform:x\n")
    assert objections(host) == []
    host.link_to(f"{GROUPS}/1/devices/arm-smmu-test/driver", "../../../../bus/platform/drivers/simple-bus")
    (objection,) = objections(host)
    assert "arm-smmu-test (class unknown, driver simple-bus)" in objection.message


def test_a_network_or_disk_function_in_the_card_s_own_slot_is_not_taken_along_silently(host: PciBus) -> None:
    host.function("0000:01:00.5", "020000", "8086:10d3", driver="e1000e", group=1)
    (objection,) = objections(host)
    assert objection.code == "host-depends-on-device"
    assert "0000:01:00.5: it is class 0200, network, driver e1000e in the card's slot" in objection.message


def test_without_an_iommu_the_reason_says_what_to_turn_on(tmp_path: Path) -> None:
    host = PciBus(tmp_path)
    host.driver("nvidia", "10de:1e04")
    host.function("0000:01:00.0", "030000", "10de:1e04", driver="nvidia")
    host.put("proc/cpuinfo", "vendor_id\t: GenuineIntel\n")
    host.put("proc/cmdline", "root=/dev/sda1 quiet\n")
    (objection,) = objections(host)
    assert objection.code == "iommu-off"
    assert "kernel command line lacks intel_iommu=on" in objection.message


def test_a_stand_in_group_is_no_iommu(host: PciBus) -> None:
    host.put(f"{GROUPS}/1/name", "vfio-noiommu\n")
    (objection,) = objections(host)
    assert objection.code == "iommu-off"


def test_a_card_that_alone_has_no_group_is_told_apart_from_no_iommu_at_all(host: PciBus) -> None:
    (host.base / PLACE / "0000:01:00.2" / "iommu_group").unlink()
    (objection,) = objections(host)
    assert objection.code == "no-iommu-group"
    assert objection.message.startswith("0000:01:00.2 is in no IOMMU group although others are")


def test_a_function_that_answers_only_ones_is_dead(host: PciBus) -> None:
    host.function("0000:06:00.0", "030200", "ffff:ffff", group=6)
    (objection,) = objections(host, PciAddress.parse("06:00.0"))
    assert objection.code == "device-dead"


def test_a_card_that_carries_mediated_devices_is_not_taken_from_under_them(host: PciBus) -> None:
    uuids = ["6f2c9d52-5d0c-4b7c-9d0e-5f6f4b8a3c11", "7f2c9d52-5d0c-4b7c-9d0e-5f6f4b8a3c11"]
    for uuid, parent in zip(uuids, ("0000:01:00.0", "0000:02:00.0"), strict=True):
        host.link_to(f"sys/bus/mdev/devices/{uuid}", f"../../../devices/pci0000:00/{parent}/{uuid}")
        host.link_to(f"{PLACE}/{parent}/{uuid}/mdev_type", "../mdev_supported_types/nvidia-223")
    (objection,) = objections(host)
    assert objection.code == "mdevs-exist"
    assert f"die with its driver: {uuids[0]} (nvidia-223);" in objection.message


def test_all_objections_are_told_at_once(host: PciBus) -> None:
    host.function("0000:05:00.0", "020000", "8086:10d3", driver="e1000e", group=1)
    host.put(f"{PLACE}/0000:01:00.0/sriov_totalvfs", "16\n")
    host.put(f"{PLACE}/0000:01:00.0/sriov_numvfs", "4\n")
    assert [one.code for one in objections(host)] == ["vfs-enabled", "iommu-group-shared"]


def test_the_disk_the_host_runs_on_and_a_network_card_that_is_up_are_never_given_away(host: PciBus) -> None:
    disk, network = PciAddress.parse("0000:03:00.0"), PciAddress.parse("0000:02:00.0")
    host.put(f"{PLACE}/0000:03:00.0/nvme/nvme0/nvme0n1/nvme0n1p2/dev", "259:2\n")
    host.link_to("sys/class/block/nvme0n1p2", "../../devices/pci0000:00/0000:03:00.0/nvme/nvme0/nvme0n1/nvme0n1p2")
    host.put(f"{PLACE}/0000:02:00.0/net/eno1/flags", "0x1002\n")
    assert objections(host, disk) == []
    assert objections(host, network) == []
    host.put("proc/self/mountinfo", "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/root rw\n")
    host.put(f"{PLACE}/0000:02:00.0/net/eno1/flags", "0x1003\n")
    (objection,) = objections(host, disk)
    assert objection.code == "host-depends-on-device"
    assert "the host itself uses 0000:03:00.0: nvme0n1p2 is mounted at /" in objection.message
    (objection,) = objections(host, network)
    assert "network interface eno1 is up" in objection.message


@pytest.mark.parametrize(
    ("rel", "text", "words"),
    [
        ("proc/self/mountinfo", "30 1 0:41 /@ /data rw - btrfs /dev/nvme0n1 rw\n", "nvme0n1 is mounted at /data"),
        ("proc/swaps", "Filename Type Size Used Priority\n/dev/nvme0n1 partition 8 0 -2\n", "is mounted at [swap]"),
        ("sys/devices/virtual/x/holders/dm-0", "", "nvme0n1 carries dm-0"),
    ],
)
def test_a_disk_in_use_is_recognised_by_source_as_swap_and_below_other_block_devices(
    host: PciBus, rel: str, text: str, words: str
) -> None:
    place = f"{PLACE}/0000:03:00.0/nvme/nvme0/nvme0n1"
    host.put(f"{place}/dev", "259:0\n")
    host.link_to("sys/class/block/nvme0n1", "../../devices/pci0000:00/0000:03:00.0/nvme/nvme0/nvme0n1")
    host.put(rel.replace("sys/devices/virtual/x", place), text)
    (objection,) = objections(host, PciAddress.parse("03:00.0"))
    assert words in objection.message


def test_the_bus_directory_may_hold_names_that_are_no_addresses(host: PciBus) -> None:
    host.put(f"{BUS}/devices/odd", "")
    assert len(addresses(unit.find(host, CARD))) == 4
