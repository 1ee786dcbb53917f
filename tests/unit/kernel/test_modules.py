"""Whether vfio-pci could be loaded, and what is said of cards where it could not (spec S4.9)."""

from __future__ import annotations

import pytest
from tests.unit.kernel.tree import Tree
from tests.unit.scan.verdicts import geforce, verdict

from cantle.kernel import modules
from cantle.kernel import unit as units
from cantle.model.pci import PciAddress

RELEASE = "6.1.0-29-amd64"
LISTED = "kernel/drivers/vfio/pci/vfio-pci-core.ko.xz:\nkernel/drivers/vfio/pci/vfio-pci.ko.xz: kernel/drivers/vfio/vfio.ko.xz\n"
OTHERS = "kernel/drivers/vfio/pci/vfio-pci-core.ko.xz:\nkernel/drivers/net/vfio-pci.kolibri:\n"
CARD = PciAddress.parse("0000:01:00.0")


def lists(tree: Tree, loadable: str = OTHERS, builtin: str = "") -> None:
    tree.file("proc/sys/kernel/osrelease", f"{RELEASE}\n")
    tree.file(f"lib/modules/{RELEASE}/modules.dep", loadable)
    tree.file(f"lib/modules/{RELEASE}/modules.builtin", builtin)


@pytest.mark.parametrize(
    ("loadable", "builtin", "there"),
    [
        (LISTED, "", True),
        (LISTED.replace("vfio-pci.ko", "vfio_pci.ko"), "", True),
        ("", "kernel/drivers/vfio/pci/vfio-pci.ko\n", True),
        (OTHERS, OTHERS, False),
    ],
)
def test_a_module_is_to_be_had_if_the_running_kernel_lists_it(
    tree: Tree, loadable: str, builtin: str, *, there: bool
) -> None:
    lists(tree, loadable, builtin)
    assert modules.can_be_had(tree.root, "vfio-pci") is there


def test_nobody_knows_without_the_lists_of_the_running_kernel_as_in_a_container(tree: Tree) -> None:
    assert modules.can_be_had(tree.root, "vfio-pci") is None
    lists(tree)
    tree.file("proc/sys/kernel/osrelease", "6.1.0-30-amd64\n")
    assert modules.can_be_had(tree.root, "vfio-pci") is None


def test_a_driver_that_is_there_needs_no_list(tree: Tree) -> None:
    lists(tree)
    tree.file("sys/bus/pci/drivers/vfio-pci/bind", "")
    assert modules.can_be_had(tree.root, "vfio-pci") is True


def test_a_card_is_not_offered_where_the_kernel_has_no_vfio_pci(tree: Tree) -> None:
    geforce(tree)
    assert verdict(tree)[1] is True
    assert units.objections(tree.root, units.find(tree.root, CARD)) == []
    lists(tree)
    assert verdict(tree) == ("unassignable", False, f"cannot: no vfio-pci (kernel {RELEASE} has no such module)")
    [objection] = units.objections(tree.root, units.find(tree.root, CARD))
    assert (objection.code, RELEASE in objection.message) == ("vfio-pci-missing", True)


def test_a_container_may_have_it_all_the_same(tree: Tree) -> None:
    geforce(tree, driver="nvidia")
    lists(tree)
    tree.file("proc/driver/nvidia/gpus/0000:01:00.0/information", "Device Minor: \t 3\n")
    tree.file("proc/devices", "Character devices:\n195 nvidia\n510 nvidia-uvm\n")
    said = f"can be lent whole, to containers alone: no vfio-pci (kernel {RELEASE} has no such module)"
    assert verdict(tree) == ("passthrough", True, said)
