"""``cantle.kernel.vfio``: whole cards to vfio-pci and back, on real drivers and in real IOMMU groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.holder import holding
from tests.kernel.lab import machine

from cantle.errors import Conflict
from cantle.kernel import mdev, unit, vfio
from cantle.kernel.root import Root
from cantle.kernel.unit import Unit
from cantle.model.pci import PciAddress

ROOT = Root("/")
T4 = machine.address("t4")
A40 = machine.address("a40")
FLEX = machine.address("flex")
GEFORCE = machine.address("geforce")
GEFORCE_AUDIO = machine.address("geforce", 1)

#: (driver, driver_override) of each function, as the tests find and must leave them.
Binding = tuple[str | None, str]


def bindings() -> dict[str, Binding]:
    """How every function of the machine is bound."""
    found = sorted(path.name for path in (sysfs.PCI / "devices").iterdir())
    return {one: (sysfs.driver(one), sysfs.text(sysfs.function(one) / "driver_override")) for one in found}


def find(address: str) -> Unit:
    return unit.find(ROOT, PciAddress.parse(address))


@pytest.fixture(autouse=True)
def bindings_stay() -> Iterator[None]:
    """Whatever a test does, every function of the machine is bound afterwards as it was before."""
    before = bindings()
    yield
    after = bindings()
    assert after == before


def lend(address: str) -> tuple[vfio.Original, ...]:
    card = find(address)
    known = vfio.originals(ROOT, card)
    vfio.apply(ROOT, vfio.plan_bind(ROOT, card))
    return known


def give_back(address: str, known: tuple[vfio.Original, ...]) -> None:
    vfio.apply(ROOT, vfio.plan_release(ROOT, find(address), known))


@pytest.mark.parametrize(("name", "driver"), [("t4", "nvidia"), ("flex", None), ("instinct", None)])
def test_a_card_goes_to_vfio_pci_and_back_to_the_driver_it_had(name: str, driver: str | None) -> None:
    address = machine.address(name)
    assert sysfs.driver(address) == driver
    known = lend(address)
    assert sysfs.driver(address) == "vfio-pci"
    assert vfio.is_bound(ROOT, find(address))
    node = Path(f"/dev/vfio/{sysfs.group(address)}")
    assert node.is_char_device()

    give_back(address, known)
    assert sysfs.driver(address) == driver
    assert not node.exists()


def test_a_plan_changes_nothing_and_a_second_one_has_no_steps_left() -> None:
    before = bindings()
    plan = vfio.plan_bind(ROOT, find(T4))
    assert [step.name for step in plan.steps] == ["set-override", "unbind-driver", "bind-driver"]
    assert bindings() == before
    known = lend(T4)
    assert vfio.plan_bind(ROOT, find(T4)).steps == ()
    give_back(T4, known)
    assert vfio.plan_release(ROOT, find(T4), known).steps == ()


def test_a_card_comes_back_as_a_parent_with_its_types() -> None:
    known = lend(T4)
    assert T4 not in mdev.parents(ROOT)
    give_back(T4, known)
    assert {one.type_id: one.available_instances for one in mdev.types(ROOT, T4)}["nvidia-223"] == 8


def test_the_audio_function_goes_along_and_each_gets_its_own_driver_back() -> None:
    assert (sysfs.driver(GEFORCE), sysfs.driver(GEFORCE_AUDIO)) == ("nvidia", "snd_hda_intel")
    known = lend(GEFORCE)
    assert (sysfs.driver(GEFORCE), sysfs.driver(GEFORCE_AUDIO)) == ("vfio-pci", "vfio-pci")
    give_back(GEFORCE, known)
    assert (sysfs.driver(GEFORCE), sysfs.driver(GEFORCE_AUDIO)) == ("nvidia", "snd_hda_intel")


def test_a_program_that_plays_through_the_card_is_named_and_the_card_stays_with_it() -> None:
    controls = sysfs.function(GEFORCE_AUDIO) / "sound"
    sysfs.until(lambda: any(controls.glob("card*/controlC*")), "the audio function's driver has found its codec")
    node = f"/dev/snd/{next(controls.glob('card*/controlC*')).name}"
    with open(node, "rb"), pytest.raises(Conflict, match=f"has {node} open") as caught:
        vfio.plan_bind(ROOT, find(GEFORCE))
    assert caught.value.code == "device-held"


def test_without_its_history_a_card_goes_to_the_driver_that_the_kernel_chooses() -> None:
    lend(T4)
    give_back(T4, ())
    assert sysfs.driver(T4) == "nvidia"


def test_a_card_that_shares_its_group_with_a_network_card_in_use_is_refused_before_anything_is_touched() -> None:
    assert sysfs.driver(machine.SHARED_NIC) == "e1000"
    before = bindings()
    with pytest.raises(Conflict) as caught:
        vfio.plan_bind(ROOT, find(machine.SHARED_DISPLAY))
    assert caught.value.code == "iommu-group-shared"
    assert machine.SHARED_NIC in caught.value.message
    assert "e1000" in caught.value.message
    assert machine.BRIDGE not in caught.value.message
    assert bindings() == before


def test_the_shared_group_can_be_lent_once_the_network_card_is_given_up() -> None:
    nic = sysfs.PCI / "drivers/e1000"
    sysfs.write(nic / "unbind", machine.SHARED_NIC)
    try:
        known = lend(machine.SHARED_DISPLAY)
        with holding(machine.SHARED_DISPLAY):
            pass
        give_back(machine.SHARED_DISPLAY, known)
    finally:
        sysfs.write(nic / "bind", machine.SHARED_NIC)


def test_a_card_in_a_guest_s_hands_is_not_taken_back() -> None:
    known = lend(FLEX)
    with holding(FLEX) as pid, pytest.raises(Conflict, match=f"pid {pid} ") as caught:
        vfio.plan_release(ROOT, find(FLEX), known)
    assert caught.value.code == "device-held"
    assert sysfs.driver(FLEX) == "vfio-pci"
    give_back(FLEX, known)


def test_a_card_with_virtual_functions_is_not_taken_from_its_driver() -> None:
    switch = sysfs.function(A40) / "sriov_numvfs"
    sysfs.write(switch, "2")
    try:
        with pytest.raises(Conflict) as caught:
            vfio.plan_bind(ROOT, find(A40))
        assert caught.value.code == "vfs-enabled"
        assert sysfs.text(switch) == "2"
    finally:
        sysfs.write(switch, "0")


def test_one_virtual_function_is_lent_by_itself() -> None:
    switch = sysfs.function(A40) / "sriov_numvfs"
    sysfs.write(switch, "2")
    try:
        first = f"{A40[:-1]}1"
        known = lend(first)
        assert (sysfs.driver(first), sysfs.driver(f"{A40[:-1]}2"), sysfs.driver(A40)) == (
            "vfio-pci",
            "nvidia",
            "nvidia",
        )
        give_back(first, known)
        assert sysfs.driver(first) == "nvidia"
    finally:
        sysfs.write(switch, "0")


def test_a_card_with_mediated_devices_is_not_taken_from_its_driver() -> None:
    one = "c3b6c7a0-8f53-4a4e-9d39-0d1f1b9f6a01"
    mdev.create(ROOT, T4, "nvidia-223", one)
    with pytest.raises(Conflict, match=one) as caught:
        vfio.plan_bind(ROOT, find(T4))
    assert caught.value.code == "mdevs-exist"
    assert sysfs.mdevs() == {one}
    mdev.remove(ROOT, one)
