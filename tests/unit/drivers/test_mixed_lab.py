"""One host with a card of each kind, and all drivers that come with Cantle."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.drivers.hosts import T4

from cantle import simulate
from cantle.agent import discover
from cantle.drivers import loader
from cantle.kernel import mdev
from cantle.kernel.pci_ids import PciIds
from cantle.model.device import DeviceType, Health, Mode
from cantle.model.enabled_types import EnabledType, EnabledTypes
from cantle.model.isolation import Isolation, of_device
from cantle.simulate.description import Description, Function
from cantle.wire.inventory import DeviceReport, InventoryReport

SCREEN = "0000:03:00.0"
GEFORCE = "0000:17:00.0"
SHARED = "0000:65:00.0"
DEAD = "0000:86:00.0"
INSTINCT = "0000:c1:00.0"
FLEX = "0001:d6:00.0"
FAR = "10000:e1:00.0"
INTEGRATED = "0000:00:02.0"


def look(root: simulate.SimulatedRoot, enabled: EnabledTypes = EnabledTypes()) -> InventoryReport:  # noqa: B008 - a frozen value
    drivers, problems = loader.load()
    assert problems == []
    view, told = discover.look("lab", root, enabled, {}, PciIds(root))
    return discover.report(view, drivers, told, "start")


def found(root: simulate.SimulatedRoot, enabled: EnabledTypes = EnabledTypes()) -> dict[str, DeviceReport]:  # noqa: B008
    report = look(root, enabled)
    assert report.problems == ()
    return {one.address: one for one in report.devices}


@pytest.fixture
def lab(tmp_path: Path) -> simulate.SimulatedRoot:
    return simulate.build(simulate.load("mixed-lab"), tmp_path / "lab")


def test_every_card_is_reported_and_each_that_cannot_be_lent_says_why(lab: simulate.SimulatedRoot) -> None:
    cards = found(lab)
    assert sorted(cards) == sorted([INTEGRATED, SCREEN, GEFORCE, SHARED, DEAD, T4, INSTINCT, FLEX, FAR])
    assert {address: one.mode for address, one in cards.items() if one.deployables} == {
        INTEGRATED: Mode.PASSTHROUGH,
        GEFORCE: Mode.PASSTHROUGH,
        T4: Mode.PASSTHROUGH,
        INSTINCT: Mode.PASSTHROUGH,
        FLEX: Mode.PASSTHROUGH,
    }
    assert (cards[SCREEN].mode, cards[SCREEN].health) == (Mode.DISPLAY_ONLY, Health.OK)
    assert cards[SCREEN].reason == "no: the screen of the management controller (BMC)"
    assert cards[SHARED].mode is Mode.UNASSIGNABLE
    assert "0000:66:00.0 (class 0200, network, driver i40e)" in str(cards[SHARED].reason)
    assert (cards[DEAD].mode, cards[DEAD].health) == (Mode.UNASSIGNABLE, Health.FAILED)
    assert "reads ffff" in str(cards[DEAD].reason)
    assert cards[FAR].mode is Mode.UNASSIGNABLE
    assert "domain 10000 does not fit" in str(cards[FAR].reason)


def test_an_instinct_is_a_gpu_although_its_class_says_accelerator(lab: simulate.SimulatedRoot) -> None:
    card = found(lab)[INSTINCT]
    assert (card.type, card.vendor_id, card.product_id) == (DeviceType.GPU, "1002", "74a1")
    assert card.std_board_info["controller"] == "Processing accelerators"
    assert card.deployables[0].resource_class == "PGPU"
    assert card.deployables[0].traits == ("OWNER_CYBORG", "CUSTOM_AMD_74A1")


def test_a_flex_in_another_domain_is_found_there(lab: simulate.SimulatedRoot) -> None:
    card = found(lab)[FLEX]
    assert (card.type, card.model) == (DeviceType.GPU, "Intel Corporation ATS-M [Data Center GPU Flex 170]")
    [handle] = card.deployables[0].handles
    assert handle.attach_info == {"domain": "0001", "bus": "d6", "device": "00", "function": "0"}
    assert card.deployables[0].traits == ("OWNER_CYBORG", "CUSTOM_INTEL_56C0")


def test_two_makers_cards_are_cut_side_by_side(lab: simulate.SimulatedRoot) -> None:
    enabled = EnabledTypes(
        (EnabledType("nvidia-223", addresses=(T4,)), EnabledType("i915-GVTg_V5_4", addresses=(INTEGRATED,)))
    )
    cards = found(lab, enabled)
    assert {address: len(one.deployables[0].handles) for address, one in cards.items() if one.mode is Mode.MDEV} == {
        T4: 8,
        INTEGRATED: 4,
    }
    assert cards[INTEGRATED].deployables[0].traits[1] == "CUSTOM_INTEL_591D_I915_GVTG_V5_4"
    assert cards[INTEGRATED].mdev_types == {INTEGRATED: {"i915-GVTg_V5_4": "", "i915-GVTg_V5_8": ""}}
    assert {of_device(one.mode, one.labels) for one in cards.values() if one.mode is Mode.MDEV} == {Isolation.TIME}
    assert {of_device(one.mode, one.labels) for one in cards.values() if one.mode is Mode.PASSTHROUGH} == {
        Isolation.HARDWARE
    }


def test_the_default_type_is_for_cards_of_its_maker_alone(lab: simulate.SimulatedRoot) -> None:
    cards = found(lab, EnabledTypes((EnabledType("i915-GVTg_V5_8"),)))
    assert cards[INTEGRATED].mode is Mode.MDEV
    assert cards[T4].mode is Mode.PASSTHROUGH


def test_a_vendor_that_reads_ffff_is_reported_as_dead(tmp_path: Path) -> None:
    described = Description("dead", functions=(Function("0000:01:00.0", "ffff", "ffff", "030200"),))
    card = found(simulate.build(described, tmp_path / "h"))["0000:01:00.0"]
    assert (card.mode, card.health, card.deployables) == (Mode.UNASSIGNABLE, Health.FAILED, ())


def carved(cards: int, functions: int) -> Description:
    """A host of so many cards, of which all but the first are carved into so many virtual functions each."""
    found: list[Function] = []
    for number in range(cards):
        bus = 0x10 + 0x10 * number
        address = f"0000:{bus:02x}:00.0"
        found.append(
            Function(
                address, "10de", "2235", "030200", driver="nvidia", iommu_group=1000 * number, sriov_total=functions
            )
        )
        for virtual in range(functions if number else 0):
            place = 4 + virtual
            found.append(
                Function(
                    f"0000:{bus + place // 256:02x}:{place // 8:02x}.{place % 8}",
                    "10de",
                    "2235",
                    "030200",
                    driver="nvidia",
                    iommu_group=1000 * number + 1 + virtual,
                    physfn=address,
                )
            )
    return Description("carved", iommu="intel", modules=("vfio-pci",), functions=tuple(found))


def test_of_four_cards_of_which_three_are_carved_into_48_functions_each_exactly_one_is_published_whole(
    tmp_path: Path,
) -> None:
    root = simulate.build(carved(4, 48), tmp_path / "h")
    cards = found(root)
    assert len(cards) == 4
    [whole] = [one for one in cards.values() if one.deployables]
    assert (whole.address, whole.mode, len(whole.deployables[0].handles)) == ("0000:10:00.0", Mode.PASSTHROUGH, 1)
    assert {one.mode for one in cards.values() if not one.deployables} == {Mode.SRIOV}
    assert all("48 virtual functions" in str(one.reason) for one in cards.values() if not one.deployables)


def test_two_identical_types_removed_and_added_again_give_the_first_state_again(lab: simulate.SimulatedRoot) -> None:
    both = EnabledTypes(
        (EnabledType("nvidia-223", addresses=(T4,)), EnabledType("i915-GVTg_V5_8", addresses=(INTEGRATED,)))
    )
    first = look(lab, both)
    for fewer in (EnabledTypes(both.types[:1]), EnabledTypes(both.types[1:]), EnabledTypes()):
        assert look(lab, fewer).digest != first.digest
        assert look(lab, both) == first


def test_a_free_mediated_device_of_somebody_else_is_adopted_only_if_the_configuration_says_so(
    lab: simulate.SimulatedRoot,
) -> None:
    foreign = "99999999-2222-4333-8444-555555555555"
    mdev.create(lab, T4, "nvidia-223", foreign)
    types = (EnabledType("nvidia-223", addresses=(T4,)),)
    [left] = found(lab, EnabledTypes(types))[T4].deployables
    assert (len(left.handles), [one.uuid for one in left.handles if one.uuid]) == (7, [])
    [adopted] = found(lab, EnabledTypes(types, adopt=True))[T4].deployables
    assert len(adopted.handles) == 8
    assert [one.uuid for one in adopted.handles if one.uuid] == [foreign]
    lab.hold(foreign)
    [held] = found(lab, EnabledTypes(types, adopt=True))[T4].deployables
    assert (len(held.handles), [one.uuid for one in held.handles if one.uuid]) == (7, [])
    lab.let_go()
    [limited] = found(lab, EnabledTypes((EnabledType("nvidia-223", "VGPU", (T4,), 3),), adopt=True))[T4].deployables
    assert len(limited.handles) == 3
