"""``cantle.kernel.vfio``: whole cards to vfio-pci and back, on real drivers and in real IOMMU groups."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.holder import holding
from tests.kernel.lab import machine

from cantle.errors import Conflict, HostError
from cantle.kernel import mdev, unit, vfio
from cantle.kernel.root import Root
from cantle.kernel.unit import Unit
from cantle.model.pci import PciAddress
from cantle.model.step import Plan

ROOT = Root("/")
T4 = machine.address("t4")
A40 = machine.address("a40")
FLEX = machine.address("flex")
GEFORCE = machine.address("geforce")
GEFORCE_AUDIO = machine.address("geforce", 1)
EMULATED = machine.address("emulated")

#: (driver, driver_override) of each function, as the tests find and must leave them.
Binding = tuple[str | None, str]


def bindings() -> dict[str, Binding]:
    """How every function of the machine is bound."""
    found = sorted(path.name for path in (sysfs.PCI / "devices").iterdir())
    return {one: (sysfs.driver(one), sysfs.text(sysfs.function(one) / "driver_override")) for one in found}


class FailingRoot(Root):
    """The guest's own kernel, but for one write that does not reach it."""

    def __init__(self, failing: int) -> None:
        super().__init__("/")
        self._left = failing

    def write(self, rel: str, text: str) -> None:
        """As of Root, but for the write in question."""
        self._left -= 1
        if self._left == 0:
            raise HostError("host-write-failed", "cut off by the test", path=f"/{rel}", errno=errno.EIO)
        super().write(rel, text)


class FatalRoot(Root):
    """The guest's own kernel; the process that uses it is killed right after one of its writes."""

    def __init__(self, fatal: int) -> None:
        super().__init__("/")
        self._left = fatal

    def write(self, rel: str, text: str) -> None:
        """As of Root, for the last time if it is the write in question."""
        super().write(rel, text)
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def killed(fatal: int, plan: Plan) -> None:
    """Carries out a plan in a process that is killed after one of its writes."""
    child = os.fork()
    if child == 0:
        vfio.apply(FatalRoot(fatal), plan)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


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


def test_whichever_write_fails_the_kernel_is_left_as_it_was_and_the_next_attempt_succeeds() -> None:
    card = find(GEFORCE)
    before = bindings()
    known = vfio.originals(ROOT, card)
    plan = vfio.plan_bind(ROOT, card)
    for failing in range(1, len(plan.steps) + 1):
        with pytest.raises(HostError, match="the device does not answer"):
            vfio.apply(FailingRoot(failing), plan)
        assert bindings() == before
    vfio.apply(ROOT, plan)

    lent = bindings()
    plan = vfio.plan_release(ROOT, find(GEFORCE), known)
    for failing in range(1, len(plan.steps) + 1):
        with pytest.raises(HostError, match="the device does not answer"):
            vfio.apply(FailingRoot(failing), plan)
        assert bindings() == lent
    vfio.apply(ROOT, plan)


@pytest.mark.parametrize("forward", [True, False], ids=["goes on", "goes back"])
def test_whoever_is_killed_after_any_write_leaves_a_card_that_the_next_can_bring_to_either_end(forward: bool) -> None:
    before = bindings()
    known = vfio.originals(ROOT, find(GEFORCE))
    writes = len(vfio.plan_bind(ROOT, find(GEFORCE)).steps)
    for fatal in range(1, writes + 1):
        killed(fatal, vfio.plan_bind(ROOT, find(GEFORCE)))
        if forward:
            vfio.apply(ROOT, vfio.plan_bind(ROOT, find(GEFORCE)))
            assert vfio.is_bound(ROOT, find(GEFORCE))
        give_back(GEFORCE, known)
        assert bindings() == before
    for fatal in range(1, writes + 1):
        lend(GEFORCE)
        killed(fatal, vfio.plan_release(ROOT, find(GEFORCE), known))
        if not forward:
            vfio.apply(ROOT, vfio.plan_bind(ROOT, find(GEFORCE)))
            assert vfio.is_bound(ROOT, find(GEFORCE))
        give_back(GEFORCE, known)
        assert bindings() == before


def test_a_driver_that_will_not_have_the_card_is_named_and_the_card_stays_with_vfio_pci() -> None:
    known = lend(T4)
    lent = bindings()
    wrong = [vfio.Original(one.address, one.hardware, "e1000") for one in known]
    with pytest.raises(HostError, match=f"e1000 did not take {T4}: the driver does not serve") as caught:
        give_back(T4, tuple(wrong))
    assert (caught.value.code, caught.value.errno) == ("driver-bind-refused", errno.ENODEV)
    assert bindings() == lent
    give_back(T4, known)


@pytest.fixture
def screen() -> Iterator[Path]:
    """The node of the one card that is what QEMU made it, on the kernel's own DRM driver for it."""
    subprocess.run(["modprobe", "bochs"], check=True)
    drm = sysfs.function(EMULATED) / "drm"
    sysfs.until(lambda: any(drm.glob("card*")), "the display driver has made its node")
    yield Path("/dev/dri") / next(drm.glob("card*")).name
    subprocess.run(["modprobe", "-r", "bochs"], check=True)


def test_a_display_server_s_card_is_refused_by_pid_until_it_ends_and_then_goes_and_comes_back(screen: Path) -> None:
    before = bindings()
    with screen.open("rb"), pytest.raises(Conflict, match=f"has {screen} open") as caught:
        vfio.plan_bind(ROOT, find(EMULATED))
    assert caught.value.code == "device-held"
    known = lend(EMULATED)
    assert sysfs.driver(EMULATED) == "vfio-pci"
    assert not screen.exists()
    give_back(EMULATED, known)
    assert bindings() == before


def test_without_vfio_pci_the_plan_is_refused_unless_loading_it_is_part_of_the_plan() -> None:
    subprocess.run(["modprobe", "-r", "vfio-pci"], check=True)
    with pytest.raises(Conflict, match="modprobe vfio-pci") as caught:
        vfio.plan_bind(ROOT, find(T4))
    assert caught.value.code == "driver-not-loaded"
    known = vfio.originals(ROOT, find(T4))
    plan = vfio.plan_bind(ROOT, find(T4), load_module=True)
    assert [step.name for step in plan.steps][:2] == ["load-module", "set-override"]
    vfio.apply(ROOT, plan)
    assert sysfs.driver(T4) == "vfio-pci"
    give_back(T4, known)


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
