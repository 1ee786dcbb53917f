"""Parents of mediated devices that are not NVIDIA's (spec S1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.drivers.hosts import FIRST, described, devices, lent_mdev, marks

from cantle import simulate
from cantle.drivers.intel import IntelDriver
from cantle.drivers.mdev import MdevDriver
from cantle.kernel import mdev
from cantle.model.device import DeviceType, Health, Mode
from cantle.model.enabled_types import EnabledType, EnabledTypes


@pytest.fixture
def mtty(tmp_path: Path) -> simulate.SimulatedRoot:
    return simulate.build(simulate.load("mtty"), tmp_path / "mtty")


@pytest.mark.parametrize("name", ["mtty", "mtty_mtty"])
def test_a_parent_that_is_no_pci_function_is_lent_by_either_of_its_names(
    mtty: simulate.SimulatedRoot, name: str
) -> None:
    parent = devices(mtty, MdevDriver(), EnabledTypes((EnabledType("mtty-2", "CUSTOM_MTTY", (name,)),)))["mtty"]
    assert (parent.type, parent.vendor, parent.vendor_id, parent.model) == (DeviceType.MDEV, "mdev", "", "mtty")
    [deployable] = parent.deployables
    assert deployable.name == "node1_mtty"
    assert deployable.resource_class == "CUSTOM_MTTY"
    assert deployable.traits == ("OWNER_CYBORG", "CUSTOM_MDEV_MTTY_DUAL_PORT_SERIAL")
    assert len(deployable.handles) == 12
    assert deployable.handles[3].attach_info == {"parent": "mtty", "asked_type": "mtty-2", "vgpu_mark": "mtty-2_3"}


def test_the_default_type_serves_parents_of_its_own_driver_only(mtty: simulate.SimulatedRoot) -> None:
    assert len(marks(devices(mtty, MdevDriver(), EnabledTypes((EnabledType("mtty-1"),)))["mtty"])) == 24
    other = devices(mtty, MdevDriver(), EnabledTypes((EnabledType("nvidia-35"),)))["mtty"]
    assert other.deployables == ()
    assert "name one of its types (mtty-1, mtty-2)" in str(other.reason)


def test_units_of_another_type_made_by_others_take_their_share(mtty: simulate.SimulatedRoot) -> None:
    mdev.create(mtty, "mtty", "mtty-1", FIRST)
    enabled = EnabledTypes((EnabledType("mtty-2", addresses=("mtty",)),))
    assert len(marks(devices(mtty, MdevDriver(), enabled)["mtty"])) == 11


def test_our_own_units_count(mtty: simulate.SimulatedRoot) -> None:
    mdev.create(mtty, "mtty", "mtty-2", FIRST)
    enabled = EnabledTypes((EnabledType("mtty-2", addresses=("mtty",)),))
    found = devices(mtty, MdevDriver(), enabled, lent_mdev(FIRST, "mtty-2_11", "mtty"))["mtty"]
    assert len(marks(found)) == 12


INTEL = """
name: gvt
iommu: intel
functions:
  - {address: "0000:00:02.0", vendor: "8086", device: "591d", class: "030000", driver: i915, iommu_group: 1,
     mdev: {capacity: 8, driver: vfio_mdev, types: [{id: i915-GVTg_V5_4, size: 2, description: "low_gm_size: 128MB"},
                                                    {id: i915-GVTg_V5_8, size: 1}]}}
  - {address: "0000:01:00.0", vendor: "8086", device: "56c0", class: "038000", driver: i915, iommu_group: 2}
"""


def test_types_without_names_of_a_pci_parent_are_named_by_their_ids(tmp_path: Path) -> None:
    enabled = EnabledTypes((EnabledType("i915-GVTg_V5_4", addresses=("0000:00:02.0",)),))
    root = described(INTEL, tmp_path / "h")
    assert devices(root, MdevDriver(), enabled) == {}
    found = devices(root, IntelDriver(), enabled)
    assert sorted(found) == ["0000:00:02.0", "0000:01:00.0"]
    assert found["0000:01:00.0"].mode is Mode.PASSTHROUGH
    card = found["0000:00:02.0"]
    assert (card.type, card.vendor, card.mode, card.health) == (DeviceType.GPU, "8086", Mode.MDEV, Health.OK)
    assert card.deployables[0].traits == ("OWNER_CYBORG", "CUSTOM_INTEL_591D_I915_GVTG_V5_4")
    assert len(marks(card)) == 4


def test_an_enabled_card_whose_driver_is_late_is_withheld_and_not_forgotten(tmp_path: Path) -> None:
    enabled = EnabledTypes((EnabledType("i915-GVTg_V5_4", addresses=("0000:01:00.0",)),))
    card = devices(described(INTEL, tmp_path / "h"), IntelDriver(), enabled)["0000:01:00.0"]
    assert (card.health, card.deployables) == (Health.DEGRADED, ())
    assert "no mediated type is offered" in str(card.reason)
    assert "to lend it whole: cantle device set-mode 0000:01:00.0 passthrough" in str(card.reason)


def test_a_limit_counts_the_whole_host_and_trims_the_last_parent(tmp_path: Path) -> None:
    text = """
name: two
iommu: intel
parents:
  - {name: a, path: virtual/x/a, mdev: {capacity: 16, types: [{id: x-1}]}}
  - {name: b, path: virtual/x/b, mdev: {capacity: 16, types: [{id: x-1}]}}
"""
    root = described(text, tmp_path / "h")
    enabled = EnabledTypes((EnabledType("x-1", max_instances=30),))
    assert [len(marks(one)) for one in devices(root, MdevDriver(), enabled).values()] == [16, 14]
    mdev.create(root, "b", "x-1", FIRST)
    assert [len(marks(one)) for one in devices(root, MdevDriver(), enabled).values()] == [16, 13]
    ours = lent_mdev(FIRST, "x-1_0", "b")
    assert [len(marks(one)) for one in devices(root, MdevDriver(), enabled, ours).values()] == [16, 14]


def test_a_parent_that_cannot_be_read_is_degraded_and_hides_no_other(tmp_path: Path) -> None:
    text = """
name: two
parents:
  - {name: a, path: virtual/x/a, mdev: {capacity: 1, types: [{id: x-1}]}}
  - {name: b, path: virtual/x/b, mdev: {capacity: 1, types: [{id: x-1}]}}
"""
    root = described(text, tmp_path / "h")
    Path(root.path, "sys/devices/virtual/x/a/mdev_supported_types/x-1/available_instances").unlink()
    Path(root.path, "sys/devices/virtual/x/a/mdev_supported_types/x-1/available_instances").write_text("many\n")
    found = devices(root, MdevDriver(), EnabledTypes((EnabledType("x-1"),)))
    assert (found["a"].health, found["a"].deployables) == (Health.DEGRADED, ())
    assert "'many'" in str(found["a"].reason)
    assert marks(found["b"]) == ["x-1_0"]
