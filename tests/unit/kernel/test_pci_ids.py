"""Names from pci.ids, as lspci prints them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.kernel.tree import Tree

from cantle.kernel.pci_ids import FILES, PciIds
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress, PciFunction

#: Cut from the public list: comments, subsystems below devices, device ids that are also vendor ids, classes at the end.
IDS = """#
#\tList of PCI ID's
#
# Vendors, devices and subsystems. Please keep sorted.
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t10de  A device that is numbered like a vendor
\t74a1  Aqua Vanjaram [Instinct MI300X]
10de  NVIDIA Corporation
\t1eb8  TU104GL [Tesla T4]
\t\t10de 12a2  T4 board
\t25b6  GA107GL [A2 / A16]
# a comment between
1a03  ASPEED Technology, Inc.
\t2000  ASPEED Graphics Family
ffff  Illegal Vendor ID

# List of known device classes, subclasses and programming interfaces
C 03  Display controller
\t00  VGA compatible controller
"""


def function(vendor: str, device: str) -> PciFunction:
    return PciFunction(PciAddress(0, 0, 0, 0), vendor, device, "030200")


@pytest.mark.parametrize(
    ("vendor", "device", "name"),
    [
        ("10de", "1eb8", "NVIDIA Corporation TU104GL [Tesla T4]"),
        ("10de", "25b6", "NVIDIA Corporation GA107GL [A2 / A16]"),
        ("10de", "2bb5", "NVIDIA Corporation Device 2bb5"),
        ("10de", "12a2", "NVIDIA Corporation Device 12a2"),
        ("10de", "2000", "NVIDIA Corporation Device 2000"),
        ("1002", "74a1", "Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X]"),
        ("1002", "10de", "Advanced Micro Devices, Inc. [AMD/ATI] A device that is numbered like a vendor"),
        ("1a03", "2000", "ASPEED Technology, Inc. ASPEED Graphics Family"),
        ("ffff", "ffff", "Illegal Vendor ID Device ffff"),
        ("1d1d", "0001", None),
    ],
)
def test_a_function_is_named_as_lspci_names_it(tree: Tree, vendor: str, device: str, name: str | None) -> None:
    tree.file("usr/share/misc/pci.ids", IDS)
    assert PciIds(tree.root).name(function(vendor, device)) == name


def test_without_the_file_there_is_no_name(tree: Tree) -> None:
    assert PciIds(tree.root).name(function("10de", "1eb8")) is None
    assert PciIds().name(function("10de", "1eb8")) is None


@pytest.mark.parametrize("file", FILES)
def test_every_usual_place_is_looked_at(tree: Tree, file: str) -> None:
    tree.file(file, IDS)
    assert PciIds(tree.root).name(function("10de", "1eb8")) == "NVIDIA Corporation TU104GL [Tesla T4]"


def test_an_unreadable_file_is_as_good_as_none(tree: Tree) -> None:
    (tree.base / FILES[0]).mkdir(parents=True)
    tree.file(FILES[1], IDS)
    assert PciIds(tree.root).name(function("10de", "1eb8")) == "NVIDIA Corporation TU104GL [Tesla T4]"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"10de  NVIDIA", b"10de  NVIDIA\n\t1eb8  T4"])
def test_a_file_that_is_cut_off_is_used_as_far_as_it_goes(tree: Tree, content: bytes) -> None:
    tree.file(FILES[0], content)
    name = PciIds(tree.root).name(function("10de", "1eb8"))
    expected = {b"10de  NVIDIA": "NVIDIA Device 1eb8", b"10de  NVIDIA\n\t1eb8  T4": "NVIDIA T4"}
    assert name == expected.get(content)


def test_the_first_root_that_has_a_file_is_asked(tree: Tree, tmp_path: Path) -> None:
    machine = tmp_path / "machine"
    (machine / "usr/share/hwdata").mkdir(parents=True)
    (machine / "usr/share/hwdata/pci.ids").write_text("10de  The machine's\n")
    names = PciIds(tree.root, Root(machine))
    assert names.name(function("10de", "1eb8")) == "The machine's Device 1eb8"
    tree.file(FILES[0], "10de  The capture's\n")
    assert PciIds(tree.root, Root(machine)).name(function("10de", "1eb8")) == "The capture's Device 1eb8"
