"""The verdict on each kind of card, in the words an operator reads, on trees as hosts show them."""

from __future__ import annotations

import pytest
from tests.unit.kernel.tree import GROUPS, MDEV_BUS, Tree
from tests.unit.scan import hosts

from cantle.agent.scan import ScanRow, scan
from cantle.kernel.pci_ids import PciIds

CARD = "0000:01:00.0"
NIC = "0000:02:00.0"


def rows(tree: Tree, *, everything: bool = False) -> dict[str, ScanRow]:
    """All rows by address, when everything could be read."""
    found = scan(tree.root, PciIds(), everything=everything)
    assert found.problems == []
    return {row.address: row for row in found.rows}


def verdict(tree: Tree, address: str = CARD) -> tuple[str | None, bool | None, str]:
    """Mode, lendable and reason of one row."""
    row = rows(tree)[address]
    return row.mode, row.lendable, row.reason


def capabilities(tree: Tree, address: str = CARD) -> list[str]:
    return [str(mode) for mode in rows(tree)[address].capabilities]


def geforce(tree: Tree, *, group: int | None = 2, driver: str | None = None) -> None:
    tree.function(CARD, "10de:2204", "030000", group=group, driver=driver)


def nic(tree: Tree, *, group: int | None = 2, driver: str | None = "ixgbe") -> None:
    tree.function(NIC, "8086:10fb", "020000", group=group, driver=driver)


# --- whole ----------------------------------------------------------------------------------------------------------


def test_a_card_without_a_driver_can_be_lent_whole(tree: Tree) -> None:
    geforce(tree)
    assert verdict(tree) == ("passthrough", True, "can be lent whole")
    assert capabilities(tree) == ["passthrough"]


@pytest.mark.parametrize("driver", ["vfio-pci", "pci-stub"])
def test_a_driver_that_keeps_a_card_for_guests_need_not_let_go(tree: Tree, driver: str) -> None:
    geforce(tree, driver=driver)
    assert verdict(tree) == ("passthrough", True, "can be lent whole")


def test_the_companions_the_driver_and_the_console_are_told(tree: Tree) -> None:
    hosts.desktop_card(tree)
    assert verdict(tree) == (
        "passthrough",
        True,
        "can be lent whole, with 0000:01:00.1; driver nouveau lets go of it first; the host's console is on it",
    )


def test_an_fpga_is_lent_as_one(tree: Tree) -> None:
    hosts.fpga(tree)
    assert verdict(tree, "0000:d8:00.0") == ("passthrough", True, "can be lent whole, as an FPGA")


def test_another_accelerator_is_lent_as_one(tree: Tree) -> None:
    tree.function(CARD, "1da3:1020", "120000", group=2)
    assert verdict(tree) == ("passthrough", True, "can be lent whole, as an accelerator")


def test_an_instinct_is_a_card_like_any_other(tree: Tree) -> None:
    hosts.mi300x(tree)
    for address in ("0000:05:00.0", "0000:65:00.0"):
        assert verdict(tree, address) == ("passthrough", True, "can be lent whole; driver amdgpu lets go of it first")
        assert capabilities(tree, address) == ["passthrough", "sriov"]


# --- the IOMMU ------------------------------------------------------------------------------------------------------


def test_without_an_iommu_the_missing_parameter_is_named(tree: Tree) -> None:
    geforce(tree, group=None)
    tree.file("proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet\n")
    tree.file("proc/cpuinfo", hosts.INTEL_CPU)
    expected = "cannot: no IOMMU (kernel command line lacks intel_iommu=on)"
    assert verdict(tree) == ("unassignable", False, expected)
    assert capabilities(tree) == ["passthrough"]


def test_a_card_that_the_iommu_leaves_out_cannot_be_lent(tree: Tree) -> None:
    geforce(tree, group=None)
    nic(tree, group=3)
    assert verdict(tree)[:2] == ("unassignable", False)
    assert verdict(tree)[2].startswith("cannot: it is in no IOMMU group although others are")


def test_the_no_iommu_mode_of_vfio_is_no_isolation(tree: Tree) -> None:
    geforce(tree)
    tree.file(f"{GROUPS}/2/name", "vfio-noiommu\n")
    assert verdict(tree) == ("unassignable", False, "cannot: no IOMMU (VFIO runs in its no-IOMMU mode)")


def test_a_card_with_device_nodes_goes_to_containers_on_a_host_without_an_iommu(tree: Tree) -> None:
    geforce(tree, driver="nvidia")
    tree.file(f"{GROUPS}/2/name", "vfio-noiommu\n")
    tree.file("proc/driver/nvidia/gpus/0000:01:00.0/information", "Device Minor: \t 3\n")
    tree.file("proc/devices", "Character devices:\n195 nvidia\n510 nvidia-uvm\n")
    said = "can be lent whole, to containers alone: no IOMMU (VFIO runs in its no-IOMMU mode)"
    assert verdict(tree) == ("passthrough", True, said)


def test_a_foreign_device_in_the_group_is_named_with_its_driver(tree: Tree) -> None:
    geforce(tree)
    nic(tree)
    expected = "cannot: IOMMU group 2 is shared with 0000:02:00.0 (network 8086:10fb, driver ixgbe)"
    assert verdict(tree) == ("unassignable", False, expected)


def test_a_foreign_device_in_a_companions_group_counts_as_well(tree: Tree) -> None:
    hosts.desktop_card(tree, group=2)
    tree.function("0000:01:00.2", "10de:1ad6", "0c0330", group=9)
    nic(tree, group=9)
    assert "IOMMU group 9 is shared with 0000:02:00.0" in verdict(tree)[2]


@pytest.mark.parametrize("driver", [None, "vfio-pci", "pci-stub"])
def test_an_idle_device_in_the_group_does_no_harm(tree: Tree, driver: str | None) -> None:
    geforce(tree)
    nic(tree, driver=driver)
    assert verdict(tree) == ("passthrough", True, "can be lent whole")


def test_a_device_on_a_vfio_driver_of_another_name_does_no_harm(tree: Tree) -> None:
    geforce(tree)
    nic(tree, driver="mlx5_vfio_pci")
    (tree.base / tree.places[NIC] / "vfio-dev/vfio0").mkdir(parents=True)
    assert verdict(tree)[1] is True


@pytest.mark.parametrize("class_id", ["060400", "060000"])
def test_bridges_in_the_group_do_no_harm(tree: Tree, class_id: str) -> None:
    geforce(tree)
    tree.function("0000:00:01.0", "8086:1901", class_id, group=2, driver="pcieport")
    assert verdict(tree)[1] is True


def test_an_nvswitch_in_the_group_is_no_mere_bridge(tree: Tree) -> None:
    geforce(tree)
    tree.function("0000:c1:00.0", "10de:1af1", "068000", group=2, driver="nvidia-nvswitch")
    assert "shared with 0000:c1:00.0 (bridge 10de:1af1, driver nvidia-nvswitch)" in verdict(tree)[2]


def test_two_cards_of_one_group_cannot_be_lent_apart(tree: Tree) -> None:
    geforce(tree, driver="vfio-pci")
    tree.function("0000:04:00.0", "10de:2204", "030000", group=2, driver="vfio-pci")
    assert verdict(tree)[1:] == (False, "cannot: IOMMU group 2 is shared with the card 0000:04:00.0 (10de:2204)")


def test_a_member_of_the_group_that_cannot_be_read_is_a_foreign_one(tree: Tree) -> None:
    geforce(tree)
    tree.link(f"{GROUPS}/2/devices/0000:09:00.0", "sys/devices/gone")
    assert verdict(tree)[1:] == (
        False,
        "cannot: IOMMU group 2 is shared with 0000:09:00.0 (not a readable PCI function)",
    )


# --- never ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", ["1a03:2000", "102b:0538", "19e5:1711"])
def test_a_management_controllers_screen_is_display_only(tree: Tree, ids: str) -> None:
    tree.function(CARD, ids, "030000", group=2, driver="ast", boot_vga=True)
    assert verdict(tree) == ("display-only", False, "no: the screen of the management controller (BMC)")
    assert capabilities(tree) == []


@pytest.mark.parametrize("ids", ["1234:1111", "1af4:1050", "1b36:0100", "1013:00b8", "15ad:0405"])
def test_an_emulated_screen_is_display_only(tree: Tree, ids: str) -> None:
    tree.function(CARD, ids, "030000", group=2)
    assert verdict(tree) == ("display-only", False, "no: the emulated screen of a virtual machine")


def test_a_domain_beyond_sixteen_bits_is_unassignable(tree: Tree) -> None:
    tree.function("10000:01:00.0", "10de:1eb8", "030200", group=2)
    mode, lendable, reason = verdict(tree, "10000:01:00.0")
    assert (mode, lendable) == ("unassignable", False)
    assert reason.startswith("cannot: PCI domain 10000 does not fit the 16 bits")


def test_a_card_that_does_not_answer_is_unassignable(tree: Tree) -> None:
    geforce(tree)
    tree.attribute(CARD, "config", b"\xff" * 64)
    mode, lendable, reason = verdict(tree)
    assert (mode, lendable) == ("unassignable", False)
    assert "reads ffff" in reason
    assert capabilities(tree) == []


def test_a_vendor_id_of_ones_is_unassignable(tree: Tree) -> None:
    tree.function(CARD, "ffff:ffff", "120000", group=2)
    assert verdict(tree)[:2] == ("unassignable", False)


# --- mediated devices -----------------------------------------------------------------------------------------------


def test_the_seeds_t4_is_whole_until_it_is_cut(tree: Tree) -> None:
    hosts.t4(tree)
    expected = "can be lent whole, or cut into mediated devices; driver nvidia lets go of it first"
    assert verdict(tree, "0000:af:00.0") == ("passthrough", True, expected)
    assert capabilities(tree, "0000:af:00.0") == ["passthrough", "mdev"]


def test_a_card_with_a_mediated_device_is_in_that_mode(tree: Tree) -> None:
    hosts.t4(tree)
    tree.mdev("0000:af:00.0", "nvidia-223", "0f9e2f0a-3c6e-4b0e-9d64-5e9e5c6b7a01")
    expected = "can be lent in mediated devices (1 nvidia-223 made, room for more)"
    assert verdict(tree, "0000:af:00.0") == ("mdev", True, expected)


def test_a_card_that_is_full_cannot_be_lent_now(tree: Tree) -> None:
    tree.function(CARD, "10de:1eb8", "030200", group=2, driver="nvidia")
    tree.parent(CARD, {"nvidia-222": ("GRID T4-1B", 0), "nvidia-230": ("GRID T4-16Q", 0)})
    tree.mdev(CARD, "nvidia-230", "0f9e2f0a-3c6e-4b0e-9d64-5e9e5c6b7a01")
    assert verdict(tree) == ("mdev", False, "cannot now: full (1 nvidia-230 made)")


def test_a_card_without_an_iommu_can_still_be_cut(tree: Tree) -> None:
    tree.function(CARD, "10de:1eb8", "030200", driver="nvidia")
    tree.parent(CARD, {"nvidia-222": ("GRID T4-1B", 16)})
    assert verdict(tree)[:2] == ("mdev", True)
    assert verdict(tree)[2].startswith("can be cut into mediated devices (not lent whole: no IOMMU")


def test_a_parent_that_is_no_pci_function_is_a_row(tree: Tree) -> None:
    hosts.mtty(tree)
    row = rows(tree)["mtty"]
    assert (row.vendor_id, row.device_id, row.class_id, row.name) == (None, None, None, None)
    assert verdict(tree, "mtty") == ("mdev", True, "can be cut into mediated devices")
    assert capabilities(tree, "mtty") == ["mdev"]


def test_a_parent_whose_driver_is_not_ready_cannot_be_lent_now(tree: Tree) -> None:
    tree.parent("mtty", {})
    assert verdict(tree, "mtty") == ("mdev", False, "cannot now: its driver offers no mediated device")


def test_a_parent_of_another_class_is_a_row(tree: Tree) -> None:
    tree.function(NIC, "15b3:1017", "020000", group=2, driver="mlx5_core", sriov=(8, 0))
    tree.parent(NIC, {"mlx5_core-local": ("MLX5 Sub-Function", 4)})
    assert verdict(tree, NIC) == ("mdev", True, "can be cut into mediated devices")
    assert capabilities(tree, NIC) == ["mdev", "sriov"]


# --- virtual functions ----------------------------------------------------------------------------------------------


def test_an_a2_is_cut_on_its_virtual_functions(tree: Tree) -> None:
    hosts.a2(tree)
    expected = "can be lent in mediated devices (1 nvidia-742 made, room for more)"
    assert verdict(tree, "0000:08:00.0") == ("mdev", True, expected)
    assert capabilities(tree, "0000:08:00.0") == ["passthrough", "mdev", "sriov"]
    assert verdict(tree, "0000:08:00.4") == ("mdev", False, "part of 0000:08:00.0, full (1 nvidia-742 made)")
    assert verdict(tree, "0000:08:02.3") == ("mdev", False, "part of 0000:08:00.0, room for mdevs")
    assert len(rows(tree)) == 17


def test_only_the_card_is_lendable_never_its_virtual_functions(tree: Tree) -> None:
    for lay in (hosts.a2, hosts.l40s, hosts.flex):
        lay(tree)
    lendable = [address for address, row in rows(tree).items() if row.lendable]
    assert lendable == ["0000:08:00.0", "0000:26:00.0", "0000:4d:00.0"]
    assert not [
        address for address, row in rows(tree).items() if "passthrough" in row.capabilities and address not in lendable
    ]


def test_nvidias_own_vfio_framework_is_told_from_files(tree: Tree) -> None:
    hosts.l40s(tree)
    expected = "can be lent in vGPUs on its 2 virtual functions"
    assert verdict(tree, "0000:26:00.0") == ("vendor-vfio", True, expected)
    assert capabilities(tree, "0000:26:00.0") == ["passthrough", "vendor-vfio", "sriov"]
    assert verdict(tree, "0000:26:00.4") == ("vendor-vfio", False, "part of 0000:26:00.0, see there")


def test_a_card_with_plain_virtual_functions_is_lent_in_them(tree: Tree) -> None:
    hosts.flex(tree)
    assert verdict(tree, "0000:4d:00.0") == ("sriov", True, "can be lent in its 2 virtual functions")
    assert verdict(tree, "0000:4d:00.1") == ("sriov", False, "part of 0000:4d:00.0, see there")


def test_virtual_functions_without_groups_cannot_be_lent(tree: Tree) -> None:
    tree.function(CARD, "8086:56c0", "038000", driver="i915", sriov=(31, 1))
    tree.virtual_functions(CARD, "8086:56c0", ["0000:01:00.1"], first_group=None, driver="vfio-pci")
    mode, lendable, reason = verdict(tree)
    assert (mode, lendable) == ("sriov", False)
    assert reason.startswith("cannot be lent in its 1 virtual function: no IOMMU")


def test_virtual_functions_that_are_on_but_not_to_be_seen_cannot_be_lent(tree: Tree) -> None:
    tree.function(CARD, "8086:56c0", "038000", group=2, driver="i915", sriov=(31, 2))
    tree.function("0000:01:00.1", "8086:56c0", "038000", group=3, physfn=CARD)
    expected = "cannot be lent in its 2 virtual functions: not all of them are there and in an IOMMU group"
    assert verdict(tree) == ("sriov", False, expected)


def test_virtual_functions_that_are_off_leave_the_card_whole(tree: Tree) -> None:
    tree.function(CARD, "10de:25b6", "030200", group=2, sriov=(16, 0))
    assert verdict(tree) == ("passthrough", True, "can be lent whole")
    assert capabilities(tree) == ["passthrough", "sriov"]


def test_virtual_functions_in_the_cards_slot_are_no_companions(tree: Tree) -> None:
    tree.function(CARD, "8086:56c0", "038000", group=2, sriov=(31, 0))
    tree.function("0000:01:00.1", "8086:56c0", "038000", group=3, physfn=CARD)
    assert verdict(tree) == ("passthrough", True, "can be lent whole")


# --- MIG ------------------------------------------------------------------------------------------------------------


def test_a_card_cut_into_mig_instances_is_in_that_mode(tree: Tree) -> None:
    tree.function(CARD, "10de:20b5", "030200", group=2, driver="nvidia")
    tree.file(f"proc/driver/nvidia/gpus/{CARD}/information", "Model: \t\t NVIDIA A100\nDevice Minor: \t 3\n")
    for instance in ("gi1", "gi2"):
        tree.file(f"proc/driver/nvidia/capabilities/gpu3/mig/{instance}/access", "DeviceFileMinor: 12\n")
    assert verdict(tree) == (
        "mig",
        True,
        "can be lent in its MIG slices, to containers alone (2 GPU instances); remove them to lend it whole",
    )
    assert capabilities(tree) == ["passthrough", "mig"]


# --- everything else ------------------------------------------------------------------------------------------------


def test_only_accelerators_are_shown_unless_all_are_asked_for(tree: Tree) -> None:
    hosts.everything(tree)
    shown = rows(tree)
    assert "0000:3b:00.0" not in shown
    assert "0000:c1:00.0" not in shown
    every = rows(tree, everything=True)
    assert {address: row.reason for address, row in every.items() if address not in shown} == {
        "0000:00:00.0": "no accelerator",
        "0000:3b:00.0": "no accelerator",
        "0000:c1:00.0": "no: NVSwitch, the fabric between the machine's GPUs",
    }
    assert all(every[address] == row for address, row in shown.items())


def test_a_companion_says_whose_it_is(tree: Tree) -> None:
    hosts.desktop_card(tree)
    assert rows(tree, everything=True)["0000:01:00.1"].reason == "goes with 0000:01:00.0"


def test_rows_go_by_address_and_virtual_parents_come_last(tree: Tree) -> None:
    hosts.everything(tree)
    addresses = list(rows(tree))
    assert addresses[-1] == "mtty"
    assert addresses[:-1] == sorted(addresses[:-1])


# --- what cannot be read --------------------------------------------------------------------------------------------


def test_one_unreadable_card_hides_no_other(tree: Tree) -> None:
    geforce(tree)
    tree.function("0000:04:00.0", "10de:2204", "030000", group=4, uevent=False)
    tree.without("0000:04:00.0", "vendor")
    found = scan(tree.root, PciIds())
    assert [(row.address, row.lendable) for row in found.rows] == [(CARD, True)]
    assert [problem.source for problem in found.problems] == ["0000:04:00.0"]


def test_what_cannot_be_read_around_a_card_makes_it_unassignable_with_the_file(tree: Tree) -> None:
    hosts.t4(tree)
    geforce(tree)
    place = tree.base / MDEV_BUS / "0000:af:00.0/mdev_supported_types/nvidia-222/available_instances"
    place.write_text("many\n")
    found = scan(tree.root, PciIds())
    row = next(row for row in found.rows if row.address == "0000:af:00.0")
    assert (row.mode, row.lendable) == ("unassignable", False)
    assert row.reason.startswith("cannot: not everything about it can be read (/sys/class/mdev_bus/0000:af:00.0/")
    assert "nvidia-222/available_instances" in row.reason
    assert [problem.source for problem in found.problems] == ["0000:af:00.0"]
    assert {row.address: row.lendable for row in found.rows}[CARD] is True


def test_a_virtual_parent_that_cannot_be_read_is_not_lendable(tree: Tree) -> None:
    tree.parent("mtty", {"mtty-1": ("Single port serial", 24)})
    tree.file(f"{tree.places['mtty']}/mdev_supported_types/mtty-1/available_instances", "?\n")
    found = scan(tree.root, PciIds())
    assert [(row.address, row.mode, row.lendable) for row in found.rows] == [("mtty", "unassignable", False)]
    assert "mtty-1/available_instances" in found.rows[0].reason
    assert [problem.source for problem in found.problems] == ["mtty"]


def test_a_parent_of_another_class_that_cannot_be_read_is_still_a_row(tree: Tree) -> None:
    nic(tree)
    tree.parent(NIC, {"mlx5_core-local": ("MLX5 Sub-Function", 4)})
    tree.file(f"{tree.places[NIC]}/mdev_supported_types/mlx5_core-local/available_instances", "?\n")
    found = scan(tree.root, PciIds())
    assert [(row.address, row.mode, row.lendable) for row in found.rows] == [(NIC, "unassignable", False)]
    assert found.rows[0].reason.startswith("cannot: not everything about it can be read")


def test_a_broken_entry_among_the_mediated_devices_hides_no_other(tree: Tree) -> None:
    hosts.t4(tree)
    tree.mdev("0000:af:00.0", "nvidia-223", "0f9e2f0a-3c6e-4b0e-9d64-5e9e5c6b7a01")
    tree.file("sys/bus/mdev/devices/README", "not a device")
    assert verdict(tree, "0000:af:00.0")[2] == "can be lent in mediated devices (1 nvidia-223 made, room for more)"
