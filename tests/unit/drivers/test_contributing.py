"""The driver that CONTRIBUTING.md shows is one: short, loaded as a stranger's package is, and isolated from the others."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from tests.unit.drivers.hosts import described
from tests.unit.house.checkout import CHECKOUT

from cantle import simulate
from cantle.agent import discover
from cantle.drivers import loader
from cantle.model.device import DeviceType, Mode
from cantle.model.enabled_types import EnabledTypes
from cantle.wire.inventory import InventoryReport

HOST = """
name: qat
iommu: intel
modules: [vfio-pci]
functions:
  - {address: "0000:01:00.0", vendor: "8086", device: "37c8", class: "0b4000", driver: c6xx, iommu_group: 1, sriov_total: 16}
  - {address: "0000:02:00.0", vendor: "8086", device: "4940", class: "0b4000", driver: 4xxx, iommu_group: 2, sriov_total: 16}
  - {address: "0000:02:00.1", vendor: "8086", device: "4941", class: "0b4000", driver: 4xxx, iommu_group: 3, physfn: "0000:02:00.0"}
  - {address: "0000:03:00.0", vendor: "10de", device: "1db4", class: "030200", driver: nvidia, iommu_group: 4}
"""


def shown() -> str:
    """The program in the document."""
    text = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return str(program)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A stranger's package, importable."""
    (tmp_path / "yourpackage.py").write_text(shown(), encoding="utf-8")
    (tmp_path / "raising.py").write_text(
        "class Raising:\n    name = 'raising'\n\n    def discover(self, host):\n        raise KeyError('firmware')\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("yourpackage", "raising"):
        sys.modules.pop(name, None)


def look(root: simulate.SimulatedRoot, **drivers: str) -> InventoryReport:
    """What all of Cantle's drivers and these find, loaded by entry points."""
    points = [*metadata.entry_points(group=loader.GROUP)]
    points += [metadata.EntryPoint(name, value, loader.GROUP) for name, value in drivers.items()]
    loaded, problems = loader.load(points)
    assert problems == []
    view, told = discover.look("node1", root, EnabledTypes(), {})
    return discover.report(view, loaded, told, "start")


def test_it_has_at_most_forty_lines() -> None:
    assert len(shown().splitlines()) <= 40


@pytest.mark.usefixtures("package")
def test_it_lends_the_cards_it_speaks_for(tmp_path: Path) -> None:
    found = look(described(HOST, tmp_path / "h"), qat="yourpackage:QatDriver")
    assert found.problems == ()
    cards = {one.address: one for one in found.devices}
    assert list(cards) == ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]
    assert cards["0000:01:00.0"].type is DeviceType.QAT
    assert cards["0000:01:00.0"].deployables[0].resource_class == "CUSTOM_QAT"
    assert cards["0000:01:00.0"].deployables[0].traits == ("OWNER_CYBORG", "CUSTOM_INTEL_37C8")
    # One with virtual functions is no whole card, and says so.
    assert (cards["0000:02:00.0"].mode, cards["0000:02:00.0"].deployables) == (Mode.SRIOV, ())


@pytest.mark.usefixtures("package")
def test_one_that_raises_is_reported_and_costs_no_other_driver_anything(tmp_path: Path) -> None:
    root = described(HOST, tmp_path / "h")
    alone = look(root, qat="yourpackage:QatDriver")
    found = look(root, qat="yourpackage:QatDriver", raising="raising:Raising")
    assert found.devices == alone.devices
    assert [(one.source, one.code) for one in found.problems] == [("raising", "driver-failed")]
    assert "KeyError: 'firmware'" in found.problems[0].message
