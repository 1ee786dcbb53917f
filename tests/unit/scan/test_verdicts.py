"""The verdict on each kind of card, in the words an operator reads, on trees as hosts show them."""

from __future__ import annotations

import pytest
from tests.unit.kernel.tree import MDEV_BUS, Tree
from tests.unit.scan import hosts
from tests.unit.scan.verdicts import CARD, NIC, capabilities, geforce, nic, rows, verdict

from cantle.agent.scan import scan
from cantle.kernel.pci_ids import PciIds


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
