"""Verdicts on cards that are cut: mediated devices, virtual functions, MIG."""

from __future__ import annotations

from tests.unit.kernel.tree import Tree
from tests.unit.scan import hosts
from tests.unit.scan.verdicts import CARD, NIC, capabilities, rows, verdict


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
