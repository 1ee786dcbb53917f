"""PCI functions as sysfs shows them, whole trees and broken ones."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.unit.kernel.tree import PCI, Tree

from cantle.errors import HostError
from cantle.kernel import pci
from cantle.model.pci import PciAddress, PciFunction

A2 = "0000:08:00.0"


def one(tree: Tree, address: str) -> PciFunction:
    """The function at an address, when everything could be read."""
    functions, problems = pci.functions(tree.root)
    assert problems == []
    return next(function for function in functions if str(function.address) == address)


def test_a_physical_function_is_read_in_full(tree: Tree) -> None:
    tree.function(A2, "10de:25b6", "030200", driver="nvidia", group=38, numa=0, sriov=(16, 16))
    assert one(tree, A2) == PciFunction(
        address=PciAddress(0, 8, 0, 0),
        vendor_id="10de",
        device_id="25b6",
        class_id="030200",
        subsystem_vendor="10de",
        subsystem_device="157e",
        revision="a1",
        driver="nvidia",
        iommu_group=38,
        numa_node=0,
        sriov_total=16,
        sriov_enabled=16,
    )


def test_files_tell_the_same_as_uevent(tree: Tree) -> None:
    tree.function(A2, "10de:25b6", "030200", subsystem="10de:157e")
    tree.function("0000:09:00.0", "10de:25b6", "030200", subsystem="10de:157e", uevent=False)
    first, second = pci.functions(tree.root)[0]
    ids = ("vendor_id", "device_id", "class_id", "subsystem_vendor", "subsystem_device")
    assert [getattr(first, name) for name in ids] == [getattr(second, name) for name in ids]


def test_a_class_below_0x10_keeps_its_leading_zeros(tree: Tree) -> None:
    tree.function("0000:00:1f.3", "8086:a348", "000100", driver=None)
    assert one(tree, "0000:00:1f.3").class_id == "000100"


def test_a_virtual_function_knows_its_card_even_with_the_same_device_id(tree: Tree) -> None:
    tree.function(A2, "10de:25b6", "030200", sriov=(16, 2), group=38)
    tree.virtual_functions(A2, "10de:25b6", ["0000:08:00.4", "0000:08:00.5"], first_group=90, driver="nvidia")
    vf = one(tree, "0000:08:00.5")
    assert vf.physfn == PciAddress.parse(A2)
    assert (vf.device_id, vf.iommu_group, vf.sriov_total, vf.sriov_enabled) == ("25b6", 91, None, None)


def test_an_unknown_numa_node_is_none(tree: Tree) -> None:
    tree.function(A2, "10de:25b6", "030200", numa=-1)
    assert one(tree, A2).numa_node is None


def test_a_kernel_without_numa_or_iommu_has_neither_file(tree: Tree) -> None:
    tree.function(A2, "10de:25b6", "030200")
    tree.without(A2, "numa_node")
    function = one(tree, A2)
    assert (function.numa_node, function.iommu_group, function.driver) == (None, None, None)


def test_functions_are_sorted_by_number_not_by_text(tree: Tree) -> None:
    for address in ("10000:01:00.0", "0000:ff:00.0", "0001:00:00.0"):
        tree.function(address, "8086:0a0b", "010802")
    assert [str(function.address) for function in pci.functions(tree.root)[0]] == [
        "0000:ff:00.0",
        "0001:00:00.0",
        "10000:01:00.0",
    ]


def test_no_pci_bus_is_no_function(tmp_path: Path) -> None:
    assert pci.functions(Tree(tmp_path / "s390").root) == ([], [])


@pytest.mark.parametrize("content", ["", "hello\n", "0x10d\n", "0xghij\n"])
def test_a_function_without_ids_is_a_problem_and_hides_no_other(tree: Tree, content: str) -> None:
    tree.function("0000:01:00.0", "10de:1eb8", "030200", uevent=False)
    tree.function("0000:02:00.0", "10de:1eb8", "030200")
    tree.attribute("0000:01:00.0", "vendor", content)
    functions, problems = pci.functions(tree.root)
    assert [str(function.address) for function in functions] == ["0000:02:00.0"]
    assert [(problem.source, problem.code) for problem in problems] == [("0000:01:00.0", "host-read-failed")]
    assert "/sys/bus/pci/devices/0000:01:00.0" in problems[0].message


def test_a_dangling_link_of_an_incomplete_capture_is_a_problem(tree: Tree) -> None:
    tree.function("0000:02:00.0", "10de:1eb8", "030200")
    tree.link(f"{PCI}/0000:01:00.0", "sys/devices/pci0000:00/0000:01:00.0")
    functions, problems = pci.functions(tree.root)
    assert len(functions) == 1
    assert [problem.source for problem in problems] == ["0000:01:00.0"]


def test_a_foreign_name_on_the_bus_is_a_problem(tree: Tree) -> None:
    tree.function("0000:02:00.0", "10de:1eb8", "030200")
    tree.link(f"{PCI}/notes.txt", "sys/devices")
    functions, problems = pci.functions(tree.root)
    assert len(functions) == 1
    assert [(problem.source, problem.code) for problem in problems] == [("notes.txt", "bad-pci-address")]


def test_a_directory_in_place_of_a_file_costs_that_fact_only(tree: Tree) -> None:
    tree.function(A2, "10de:25b6", "030200", group=38, driver="nvidia", sriov=(16, 0))
    tree.without(A2, "sriov_numvfs")
    (tree.base / tree.places[A2] / "sriov_numvfs").mkdir()
    functions, problems = pci.functions(tree.root)
    assert (functions[0].sriov_total, functions[0].sriov_enabled, functions[0].driver) == (16, None, "nvidia")
    assert f"/{PCI}/{A2}/sriov_numvfs" in problems[0].message


def test_a_file_without_a_number_costs_that_fact_only(tree: Tree) -> None:
    tree.function(A2, "10de:25b6", "030200", group=38)
    tree.attribute(A2, "numa_node", "node zero\n")
    functions, problems = pci.functions(tree.root)
    assert (functions[0].numa_node, functions[0].iommu_group) == (None, 38)
    assert "holds no number" in problems[0].message


def test_a_card_that_reads_ones_is_dead(tree: Tree) -> None:
    tree.function(A2, "10de:25b6", "030200")
    tree.attribute(A2, "config", b"\xff" * 64)
    assert one(tree, A2).dead


def test_a_dead_card_that_its_driver_gave_up_is_dead_too(tree: Tree) -> None:
    """Without a driver the kernel calls its power state unknown."""
    tree.function(A2, "10de:25b6", "030200")
    tree.attribute(A2, "config", b"\xff" * 64)
    tree.attribute(A2, "power_state", "unknown\n")
    assert one(tree, A2).dead


def test_a_sleeping_card_is_not_woken_to_see_whether_it_is_dead(tree: Tree) -> None:
    tree.function(A2, "10de:25b6", "030200")
    tree.attribute(A2, "config", b"\xff" * 64)
    tree.attribute(A2, "power_state", "D3cold\n")
    assert not one(tree, A2).dead


def test_a_virtual_function_reads_ones_by_the_standard_and_is_alive(tree: Tree) -> None:
    tree.function(A2, "10de:25b6", "030200", sriov=(16, 1))
    tree.virtual_functions(A2, "10de:25b6", ["0000:08:00.4"], first_group=None, driver=None)
    tree.attribute("0000:08:00.4", "config", b"\xff" * 64)
    assert not one(tree, "0000:08:00.4").dead


def test_a_vendor_id_of_ones_is_dead(tree: Tree) -> None:
    tree.function(A2, "ffff:ffff", "120000", uevent=False)
    assert one(tree, A2).dead


def test_a_capture_that_followed_its_links_does_not_make_a_card_of_a_virtual_function(tree: Tree) -> None:
    tree.function(A2, "10de:25b6", "030200", sriov=(16, 1))
    tree.virtual_functions(A2, "10de:25b6", ["0000:08:00.4"], first_group=None, driver=None)
    tree.without("0000:08:00.4", "physfn")
    tree.attribute("0000:08:00.4", "physfn/vendor", "0x10de\n")
    functions, problems = pci.functions(tree.root)
    assert [str(function.address) for function in functions] == [A2]
    assert "/0000:08:00.4/physfn is no link" in problems[0].message


def test_one_function_can_be_read_alone(tree: Tree) -> None:
    tree.function(A2, "10de:25b6", "030200", driver="vfio-pci")
    assert pci.function(tree.root, PciAddress.parse(A2)).driver == "vfio-pci"
    with pytest.raises(HostError) as caught:
        pci.function(tree.root, PciAddress.parse("0000:09:00.0"))
    assert caught.value.errno == errno.ENOENT
    tree.attribute(A2, "numa_node", "?")
    with pytest.raises(HostError, match="numa_node"):
        pci.function(tree.root, PciAddress.parse(A2))


def test_reading_leaves_no_file_open(tree: Tree) -> None:
    for slot in range(8):
        tree.function(f"0000:{slot:02x}:00.0", "10de:25b6", "030200", uevent=slot % 2 == 0)
    before = len(os.listdir("/proc/self/fd"))
    pci.functions(tree.root)
    assert len(os.listdir("/proc/self/fd")) == before
