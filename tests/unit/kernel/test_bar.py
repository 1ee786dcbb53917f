"""Windows of memory that PCI functions ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from cantle.kernel.bar import high_windows
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress

CARD = PciAddress.parse("0000:af:00.0")
#: A T4's: 16 MiB below 4 GiB, 256 MiB and 32 MiB above, then its ROM and the windows of virtual functions.
T4 = """\
0x00000000c6000000 0x00000000c6ffffff 0x0000000000040200
0x00003bffd0000000 0x00003bffdfffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x00003bfff0000000 0x00003bfff1ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x00003bff00000000 0x00003bffffffffff 0x000000000014220c
"""


@pytest.mark.parametrize(("text", "sizes"), [(T4, [256 << 20, 32 << 20]), ("", []), ("0x0 nonsense\n", [])])
def test_what_may_lie_above_4_gib_is_counted(tmp_path: Path, text: str, sizes: list[int]) -> None:
    place = tmp_path / f"sys/bus/pci/devices/{CARD}"
    place.mkdir(parents=True)
    (place / "resource").write_text(text)
    assert list(high_windows(Root(tmp_path), CARD)) == sizes


def test_a_function_that_tells_nothing_asks_for_nothing(tmp_path: Path) -> None:
    assert list(high_windows(Root(tmp_path), CARD)) == []
