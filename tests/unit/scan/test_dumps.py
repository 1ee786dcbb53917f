"""Scans of saved lspci output, and of a real machine both ways."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from cantle.agent.scan import ScanRow, scan, scan_dump
from cantle.errors import BadRequest
from cantle.kernel.pci_ids import PciIds
from cantle.kernel.root import Root

CAPTURED = Path(__file__).parent / "captured"
FORMS = ["nn", "nnk", "nnmm", "vmm"]

GPU_SERVER = """0000:00:00.0 Host bridge [0600]: Intel Corporation Device [8086:09a2] (rev 04)
0000:03:00.0 VGA compatible controller [0300]: ASPEED Technology, Inc. ASPEED Graphics Family [1a03:2000] (rev 41)
0000:05:00.0 Processing accelerators [1200]: Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X] [1002:74a1]
\tKernel driver in use: amdgpu
0000:af:00.0 3D controller [0302]: NVIDIA Corporation TU104GL [Tesla T4] [10de:1eb8] (rev a1)
0000:c1:00.0 Bridge [0680]: NVIDIA Corporation GA100 [A100 NVSwitch] [10de:1af1] (rev a1)
0000:d8:00.0 Processing accelerators [1200]: Xilinx Corporation Device [10ee:5000]
0000:e0:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 PCIe] [10de:2331] (rev ff)
10000:01:00.0 3D controller [0302]: NVIDIA Corporation TU104GL [Tesla T4] [10de:1eb8] (rev a1)
"""

UNKNOWN = "unknown: a dump does not tell IOMMU, SR-IOV and mediated devices; scan the host itself"


def by_address(dump: str, *, everything: bool = False) -> dict[str, ScanRow]:
    return {row.address: row for row in scan_dump(dump, everything=everything).rows}


def test_whether_a_card_can_be_lent_is_unknown_from_a_dump() -> None:
    rows = by_address(GPU_SERVER)
    for address in ("0000:05:00.0", "0000:af:00.0", "0000:d8:00.0"):
        assert (rows[address].mode, rows[address].lendable, rows[address].reason) == (None, None, UNKNOWN)


def test_what_the_ids_decide_is_known_from_a_dump() -> None:
    rows = by_address(GPU_SERVER)
    assert {address: (row.mode, row.lendable) for address, row in rows.items() if row.lendable is not None} == {
        "0000:03:00.0": ("display-only", False),
        "0000:e0:00.0": ("unassignable", False),
        "10000:01:00.0": ("unassignable", False),
    }


def test_a_dump_shows_accelerators_unless_all_are_asked_for() -> None:
    every = by_address(GPU_SERVER, everything=True)
    assert set(every) - set(by_address(GPU_SERVER)) == {"0000:00:00.0", "0000:c1:00.0"}
    assert every["0000:c1:00.0"].reason == "no: NVSwitch, the fabric between the machine's GPUs"


def test_facts_of_a_dump_are_in_the_row_and_absent_ones_are_none() -> None:
    row = by_address(GPU_SERVER)["0000:05:00.0"]
    assert (row.name, row.driver) == (
        "Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X]",
        "amdgpu",
    )
    assert (row.iommu_group, row.numa_node, row.sriov_total, row.sriov_enabled) == (None, None, None, None)


def test_a_dump_that_is_none_names_its_line() -> None:
    with pytest.raises(BadRequest, match=r"line 2: 'garbage' is no line of lspci"):
        scan_dump("0000:00:00.0 Host bridge [0600]: Intel Corporation Device [8086:09a2]\ngarbage\n")


@pytest.fixture
def firecracker(tmp_path: Path) -> Root:
    """A real virtual machine's tree, laid from its capture."""
    for line in (CAPTURED / "firecracker.txt").read_text().splitlines()[1:]:
        path, sign, content = line.split(" ", 2)
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if sign == "->":
            place.symlink_to(content)
        else:
            place.write_text(ast.literal_eval(content))
    return Root(tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_a_real_machine_and_its_dump_agree(firecracker: Root, form: str) -> None:
    tree = {row.address: row for row in scan(firecracker, PciIds(), everything=True).rows}
    dump = by_address((CAPTURED / f"firecracker.lspci-{form}").read_text(), everything=True)
    assert len(tree) == 6
    assert tree.keys() == dump.keys()
    for address, row in tree.items():
        ids = (row.vendor_id, row.device_id, row.class_id)
        assert ids == (dump[address].vendor_id, dump[address].device_id, dump[address].class_id)
        assert (row.revision, row.reason) == (dump[address].revision or "00", dump[address].reason)
        if form in ("nnk", "vmm"):
            assert row.driver == dump[address].driver
        if form != "nn":
            assert row.subsystem == dump[address].subsystem


def test_a_real_machine_without_accelerators_has_no_rows(firecracker: Root) -> None:
    assert scan(firecracker, PciIds()) == ([], [])
