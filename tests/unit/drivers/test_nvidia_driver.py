"""NVIDIA cards as devices, deployables and attach handles (spec S0.1 to S0.9)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.drivers.hosts import (
    FIRST,
    M40,
    SECOND,
    SEED,
    T4,
    described,
    devices,
    lent_mdev,
    marks,
    report,
    seen,
)

from cantle import simulate
from cantle.drivers.nvidia import NvidiaDriver
from cantle.errors import HostError
from cantle.kernel import mdev
from cantle.model.attach_handle import AttachType
from cantle.model.device import DeviceType, Health, Mode
from cantle.model.enabled_types import EnabledType, EnabledTypes
from cantle.wire.inventory import DeployableReport, HandleReport
from cantle.wire.work import WantedHandle


@pytest.fixture
def t4(tmp_path: Path) -> simulate.SimulatedRoot:
    return simulate.build(simulate.load("t4"), tmp_path / "t4")


def enabled(type_id: str, *addresses: str, limit: int | None = None) -> EnabledTypes:
    return EnabledTypes((EnabledType(type_id, "VGPU", addresses or (T4,), limit),))


def test_memory_and_series_are_traits_where_that_is_asked_for(t4: simulate.SimulatedRoot) -> None:
    card = devices(t4, NvidiaDriver(), EnabledTypes((EnabledType("nvidia-223", addresses=(T4,)),), type_facts=True))[T4]
    traits = ("OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_2B", "CUSTOM_VGPU_MEMORY_2GB", "CUSTOM_VGPU_SERIES_B")
    assert card.deployables[0].traits == traits


def test_the_worked_example_comes_out_exactly(t4: simulate.SimulatedRoot) -> None:
    card = devices(t4, NvidiaDriver())[T4]
    assert (card.type, card.vendor, card.vendor_id, card.product_id) == (DeviceType.GPU, "10de", "10de", "1eb8")
    assert card.model == "NVIDIA Corporation TU104GL [Tesla T4]"
    assert (card.mode, card.health, card.reason, card.numa_node) == (Mode.MDEV, Health.OK, None, 1)
    assert card.std_board_info == {"product_id": "1eb8", "controller": "3D controller"}
    assert card.capabilities == ("passthrough", "mdev")
    [deployable] = card.deployables
    assert deployable.name == "node1_0000:af:00.0"
    assert deployable.driver_name == "NVIDIA"
    assert deployable.resource_class == "VGPU"
    assert deployable.traits == ("OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_2B")
    assert deployable.attributes == {"rc": "VGPU", "trait0": "OWNER_CYBORG", "trait1": "CUSTOM_NVIDIA_1EB8_T4_2B"}
    assert [handle.key for handle in deployable.handles] == [f"nvidia-223_{number}" for number in range(8)]
    assert deployable.handles[0] == HandleReport(
        "nvidia-223_0",
        AttachType.MDEV,
        {
            "domain": "0000",
            "bus": "af",
            "device": "00",
            "function": "0",
            "asked_type": "nvidia-223",
            "vgpu_mark": "nvidia-223_0",
        },
    )


def test_a_card_without_an_enabled_type_is_lent_whole(t4: simulate.SimulatedRoot) -> None:
    card = devices(t4, NvidiaDriver())[M40]
    assert (card.mode, card.health, card.reason) == (Mode.PASSTHROUGH, Health.OK, None)
    assert card.capabilities == ("passthrough",)
    assert card.deployables == (
        DeployableReport(
            "node1_0000:86:00.0",
            "NVIDIA",
            "PGPU",
            ("OWNER_CYBORG", "CUSTOM_NVIDIA_17FD"),
            (HandleReport(M40, AttachType.PCI, {"domain": "0000", "bus": "86", "device": "00", "function": "0"}),),
            {"rc": "PGPU", "trait0": "OWNER_CYBORG", "trait1": "CUSTOM_NVIDIA_17FD"},
        ),
    )


def test_without_configuration_every_card_is_lent_whole_and_others_devices_are_left_alone(
    t4: simulate.SimulatedRoot,
) -> None:
    found = devices(t4, NvidiaDriver(), EnabledTypes())
    assert {address: one.deployables[0].resource_class for address, one in found.items()} == {T4: "PGPU", M40: "PGPU"}


def test_making_one_of_our_units_changes_no_total_and_no_name(t4: simulate.SimulatedRoot) -> None:
    before = report(t4, NvidiaDriver(), SEED)
    mdev.create(t4, T4, "nvidia-223", FIRST)
    after = report(t4, NvidiaDriver(), SEED, lent_mdev(FIRST, "nvidia-223_5"))
    assert after.devices == before.devices
    assert after.digest == before.digest


def test_a_unit_that_somebody_else_made_never_counts_as_free(t4: simulate.SimulatedRoot) -> None:
    mdev.create(t4, T4, "nvidia-223", FIRST)
    assert marks(devices(t4, NvidiaDriver())[T4]) == [f"nvidia-223_{number}" for number in range(7)]


def test_a_lent_unit_keeps_its_name_when_others_take_the_rest(t4: simulate.SimulatedRoot) -> None:
    mdev.create(t4, T4, "nvidia-223", FIRST)
    for number in range(6):
        mdev.create(t4, T4, "nvidia-223", f"{number}0000000-0000-4000-8000-000000000000")
    card = devices(t4, NvidiaDriver(), SEED, lent_mdev(FIRST, "nvidia-223_7"))[T4]
    assert marks(card) == ["nvidia-223_0", "nvidia-223_7"]


def test_a_unit_still_to_be_made_keeps_its_name_too(t4: simulate.SimulatedRoot) -> None:
    for number in range(6):
        mdev.create(t4, T4, "nvidia-223", f"{number}0000000-0000-4000-8000-000000000000")
    card = devices(t4, NvidiaDriver(), SEED, lent_mdev(FIRST, "nvidia-223_7"))[T4]
    assert marks(card) == ["nvidia-223_0", "nvidia-223_7"]


def test_a_card_full_of_another_type_says_who_is_in_the_way(t4: simulate.SimulatedRoot) -> None:
    mdev.create(t4, T4, "nvidia-225", FIRST)
    mdev.create(t4, T4, "nvidia-225", SECOND)
    card = devices(t4, NvidiaDriver())[T4]
    assert marks(card) == []
    assert card.health is Health.DEGRADED
    assert card.reason is not None
    assert "nvidia-223 offers 0: 2 nvidia-225 exist on it, 2 of them not lent by Cantle" in card.reason
    assert FIRST in card.reason


def test_a_type_that_is_not_offered_withholds_the_card_and_names_what_is(t4: simulate.SimulatedRoot) -> None:
    found = devices(t4, NvidiaDriver(), enabled("nvidia-999", T4, M40))
    assert {one.mode for one in found.values()} == {Mode.MDEV}
    assert {one.health for one in found.values()} == {Health.DEGRADED}
    assert [one.deployables for one in found.values()] == [(), ()]
    assert "it offers only nvidia-222 (GRID T4-1B), nvidia-223 (GRID T4-2B)" in str(found[T4].reason)
    assert "no mediated type is offered" in str(found[M40].reason)


def test_by_option_a_card_that_does_not_offer_its_type_is_lent_whole(t4: simulate.SimulatedRoot) -> None:
    types = EnabledTypes((EnabledType("nvidia-999", addresses=(M40,)), *SEED.types), whole_if_not_offered=True)
    found = devices(t4, NvidiaDriver(), types)
    assert found[M40].deployables[0].resource_class == "PGPU"
    assert found[M40].reason == "nvidia-999 is enabled for it, but not offered: it is lent whole, as configured"
    assert len(marks(found[T4])) == 8
    t4.write("sys/bus/pci/drivers/nvidia/unbind", T4)
    assert devices(t4, NvidiaDriver(), types)[T4].deployables[0].resource_class == "PGPU"
    assert devices(t4, NvidiaDriver(), types, lent_mdev(FIRST, "nvidia-223_0"))[T4].deployables == ()


def test_a_card_to_be_cut_on_another_driver_is_withheld_and_still_lists_what_it_could_be(
    t4: simulate.SimulatedRoot,
) -> None:
    before = devices(t4, NvidiaDriver())
    t4.write("sys/bus/pci/drivers/nvidia/unbind", T4)
    card = devices(t4, NvidiaDriver(), known=seen(before))[T4]
    assert card.deployables == ()
    assert card.health is Health.DEGRADED
    assert card.reason == (
        "nvidia-223 is enabled for it, but it is on no driver: its types are offered by nvidia alone; to lend it whole: cantle device "
        f"set-mode {T4} passthrough, or name the cards of nvidia-223 by device_addresses"
    )
    assert card.capabilities == ("passthrough", "mdev")
    assert card.mdev_types == before[T4].mdev_types
    assert card.mdev_types[T4]["nvidia-223"] == "GRID T4-2B"


def test_a_whole_card_keeps_being_lent_while_it_is_on_vfio_pci(t4: simulate.SimulatedRoot) -> None:
    before = devices(t4, NvidiaDriver())[M40]
    t4.write(f"sys/bus/pci/devices/{M40}/driver_override", "vfio-pci")
    t4.write("sys/bus/pci/drivers/nvidia/unbind", M40)
    t4.write("sys/bus/pci/drivers/vfio-pci/bind", M40)
    assert devices(t4, NvidiaDriver())[M40] == before


def test_a_card_with_somebody_elses_mdevs_is_not_lent_whole(t4: simulate.SimulatedRoot) -> None:
    mdev.create(t4, T4, "nvidia-223", FIRST)
    card = devices(t4, NvidiaDriver(), EnabledTypes())[T4]
    assert (card.mode, card.deployables) == (Mode.UNASSIGNABLE, ())
    assert f"{FIRST} (nvidia-223)" in str(card.reason)


def test_a_change_of_type_waits_until_the_old_ones_are_back(t4: simulate.SimulatedRoot) -> None:
    mdev.create(t4, T4, "nvidia-223", FIRST)
    lent = lent_mdev(FIRST, "nvidia-223_0")
    for wish in (enabled("nvidia-222"), EnabledTypes()):
        card = devices(t4, NvidiaDriver(), wish, lent)[T4]
        assert len(marks(card)) == 8
        assert card.deployables[0].traits[1] == "CUSTOM_NVIDIA_1EB8_T4_2B"
        assert card.health is Health.DEGRADED
        assert str(card.reason).startswith(f"config-refused: nvidia-223 is still lent ({FIRST})")
        assert str(card.reason).endswith(
            "which takes effect when nothing of it is lent any more. It is lent as before until then: 'cantle device disable "
            f"node1/{T4}' lends no more of it, 'cantle device enable' lends again"
        )
    mdev.remove(t4, FIRST)
    assert len(marks(devices(t4, NvidiaDriver(), enabled("nvidia-222"))[T4])) == 16


def test_all_that_a_refused_change_would_take_away_is_named(t4: simulate.SimulatedRoot) -> None:
    mdev.create(t4, T4, "nvidia-223", FIRST)
    mdev.create(t4, T4, "nvidia-223", SECOND)
    lent = (lent_mdev(FIRST, "nvidia-223_0"), lent_mdev(SECOND, "nvidia-223_1"))
    card = devices(t4, NvidiaDriver(), enabled("nvidia-222"), *lent)[T4]
    assert str(card.reason).startswith(f"config-refused: nvidia-223 is still lent ({FIRST}, {SECOND}); configured is")


def test_a_card_lent_whole_stays_whole_when_a_type_is_enabled_for_it(t4: simulate.SimulatedRoot) -> None:
    lent = WantedHandle(FIRST, T4, AttachType.PCI, {})
    card = devices(t4, NvidiaDriver(), SEED, lent)[T4]
    assert card.deployables[0].resource_class == "PGPU"
    assert card.health is Health.DEGRADED
    assert card.reason == (
        "config-refused: it is still lent whole; nvidia-223 takes effect when it is back. Whoever waits for it may have it before: "
        f"'cantle device disable node1/{T4}' lends it to nobody else, 'cantle device enable' lends again"
    )


def test_a_limit_trims_exactly_and_never_below_what_is_in_use(t4: simulate.SimulatedRoot) -> None:
    assert len(marks(devices(t4, NvidiaDriver(), enabled("nvidia-223", limit=3))[T4])) == 3
    ours = []
    for number in range(4):
        uuid = f"{number}0000000-0000-4000-8000-000000000000"
        mdev.create(t4, T4, "nvidia-223", uuid)
        ours.append(lent_mdev(uuid, f"nvidia-223_{number}"))
    assert len(marks(devices(t4, NvidiaDriver(), enabled("nvidia-223", limit=3), *ours)[T4])) == 4


def test_the_default_type_is_for_cards_that_no_type_names(t4: simulate.SimulatedRoot) -> None:
    found = devices(t4, NvidiaDriver(), EnabledTypes((EnabledType("nvidia-223"),)))
    assert len(marks(found[T4])) == 8
    assert found[M40].health is Health.DEGRADED
    others = devices(t4, NvidiaDriver(), EnabledTypes((EnabledType("mtty-1"),)))
    assert [one.mode for one in others.values()] == [Mode.PASSTHROUGH, Mode.PASSTHROUGH]


def test_a_configured_address_that_is_not_there_is_told(t4: simulate.SimulatedRoot) -> None:
    told = report(t4, NvidiaDriver(), enabled("nvidia-223", "0000:ff:00.0", "mtty_mtty"))
    assert [(one.source, one.code) for one in told.problems] == [
        ("0000:ff:00.0", "config-address-absent"),
        ("mtty_mtty", "config-address-absent"),
    ]


class Unreadable(simulate.SimulatedRoot):
    """A host on which reading one directory fails with EIO."""

    broken = ""

    def names(self, rel: str) -> list[str]:
        if self.broken and rel.startswith(self.broken):
            raise HostError("host-read-failed", f"cannot read /{rel}: Input/output error", path=rel, errno=errno.EIO)
        return super().names(rel)


def test_a_card_that_cannot_be_read_is_degraded_and_hides_no_other(t4: simulate.SimulatedRoot) -> None:
    root, driver = Unreadable(t4.path), NvidiaDriver()
    known = seen(devices(root, driver))
    root.broken = f"sys/class/mdev_bus/{T4}"
    found = devices(root, driver, known=known)
    assert (found[T4].health, found[T4].deployables) == (Health.DEGRADED, ())
    assert "Input/output error" in str(found[T4].reason)
    assert found[T4].capabilities == ("passthrough", "mdev")
    assert found[T4].mdev_types == known[T4].mdev_types
    assert found[M40].health is Health.OK


def test_a_look_that_cannot_see_what_exists_reports_nothing_at_all(t4: simulate.SimulatedRoot) -> None:
    root = Unreadable(t4.path)
    root.broken = "sys/bus/mdev"
    with pytest.raises(HostError):
        devices(root, NvidiaDriver())


FOREIGN_GROUP = """
name: shared
iommu: intel
modules: [vfio-pci]
functions:
  - {address: "0000:01:00.0", vendor: "10de", device: "1db4", class: "030200", driver: nvidia, iommu_group: 7}
  - {address: "0000:02:00.0", vendor: "8086", device: "1572", class: "020000", driver: i40e, iommu_group: 7}
"""


def test_a_card_that_shares_its_group_with_a_network_card_is_not_lent(tmp_path: Path) -> None:
    card = devices(described(FOREIGN_GROUP, tmp_path / "h"), NvidiaDriver())["0000:01:00.0"]
    assert (card.mode, card.deployables) == (Mode.UNASSIGNABLE, ())
    assert "0000:02:00.0" in str(card.reason)


NO_IOMMU = FOREIGN_GROUP.replace("iommu: intel", "iommu: none").replace(", iommu_group: 7", "")


def test_without_an_iommu_a_card_is_lent_to_containers_alone(tmp_path: Path) -> None:
    card = devices(described(NO_IOMMU, tmp_path / "h"), NvidiaDriver())["0000:01:00.0"]
    assert (card.mode, card.health) == (Mode.PASSTHROUGH, Health.OK)
    assert card.labels == {"guests": "containers", "isolation": "hardware"}
    assert str(card.reason).startswith("for containers alone: 0000:01:00.0 cannot be lent whole without an IOMMU")
    [handle] = card.deployables[0].handles
    assert handle.attach_type is AttachType.NODES


def test_without_an_iommu_and_without_device_nodes_a_card_is_lent_to_nobody(tmp_path: Path) -> None:
    text = NO_IOMMU.replace("driver: nvidia", "driver: vfio-pci")
    card = devices(described(text, tmp_path / "h"), NvidiaDriver())["0000:01:00.0"]
    assert (card.mode, card.deployables) == (Mode.UNASSIGNABLE, ())
    assert "IOMMU" in str(card.reason)
    assert "nor to a container" in str(card.reason)


def test_bridges_switches_and_functions_of_others_are_no_cards_of_ours(tmp_path: Path) -> None:
    text = """
name: odd
iommu: intel
modules: [vfio-pci]
functions:
  - {address: "0000:01:00.0", vendor: "10de", device: "1af1", class: "068000", iommu_group: 1}
  - {address: "0000:02:00.0", vendor: "10de", device: "10f8", class: "040300", iommu_group: 2}
  - {address: "0000:03:00.0", vendor: "1002", device: "74a1", class: "120000", iommu_group: 3}
  - {address: "0001:d6:00.0", vendor: "10de", device: "2bb5", class: "030200", iommu_group: 4}
  - {address: "10000:d6:00.0", vendor: "10de", device: "2bb5", class: "030200", iommu_group: 5}
"""
    found = devices(described(text, tmp_path / "h"), NvidiaDriver())
    assert list(found) == ["0001:d6:00.0", "10000:d6:00.0"]
    assert found["0001:d6:00.0"].deployables[0].handles[0].attach_info == {
        "domain": "0001",
        "bus": "d6",
        "device": "00",
        "function": "0",
    }
    assert found["10000:d6:00.0"].mode is Mode.UNASSIGNABLE
    assert "does not fit" in str(found["10000:d6:00.0"].reason)


def test_types_without_a_name_file_are_named_by_their_ids(tmp_path: Path) -> None:
    text = """
name: bare
iommu: intel
modules: [vfio-pci]
functions:
  - {address: "0000:af:00.0", vendor: "10de", device: "1eb8", class: "030200", driver: nvidia, iommu_group: 1,
     mdev: {capacity: 4, types: [{id: nvidia-223}, {id: nvidia-224, name: " "}]}}
"""
    card = devices(described(text, tmp_path / "h"), NvidiaDriver())[T4]
    assert card.deployables[0].traits[1] == "CUSTOM_NVIDIA_1EB8_NVIDIA_223"
    assert len(marks(card)) == 4


ONE_TYPE = """
name: one
functions:
  - {address: "0000:af:00.0", vendor: "10de", device: "1eb8", class: "030200", driver: nvidia,
     mdev: {capacity: 8, types: [{id: nvidia-223}]}}
"""


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 7), unique=True, max_size=8), st.integers(0, 8))
def test_whatever_is_lent_and_whatever_others_take_names_are_distinct_and_the_lent_ones_there(
    tmp_path_factory: pytest.TempPathFactory, lent: list[int], foreign: int
) -> None:
    root = described(ONE_TYPE, tmp_path_factory.mktemp("one") / "h")
    ours = []
    for number in lent:
        uuid = f"a{number}000000-0000-4000-8000-000000000000"
        mdev.create(root, T4, "nvidia-223", uuid)
        ours.append(lent_mdev(uuid, f"nvidia-223_{number}"))
    foreign = min(foreign, 8 - len(lent))
    for number in range(foreign):
        mdev.create(root, T4, "nvidia-223", f"b{number}000000-0000-4000-8000-000000000000")
    found = marks(devices(root, NvidiaDriver(), SEED, *ours)[T4])
    assert len(found) == len(set(found)) == 8 - foreign
    assert {f"nvidia-223_{number}" for number in lent} <= set(found)


def test_of_a_card_that_is_cut_a_guest_gets_one_slice_and_of_whole_ones_as_many_as_it_likes(
    t4: simulate.SimulatedRoot,
) -> None:
    found = devices(t4, NvidiaDriver())
    assert found[T4].labels == {"units_per_guest": "1", "isolation": "time"}
    assert found[M40].labels == {"isolation": "hardware"}
