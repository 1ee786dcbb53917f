"""Verdicts on what stands around a card: with or without an IOMMU, and with whom it shares a group."""

from __future__ import annotations

import pytest
from tests.unit.kernel.tree import GROUPS, Tree
from tests.unit.scan import hosts
from tests.unit.scan.verdicts import NIC, capabilities, geforce, nic, verdict


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
