"""The simulated hosts that Cantle ships let their cards go to vfio-pci and back, with each write failing once."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from cantle import simulate
from cantle.errors import Conflict, HostError
from cantle.kernel import binding, mdev, pci, unit, vfio
from cantle.model.pci import CARD_CLASSES, PciAddress
from cantle.model.step import Plan
from cantle.simulate import SimulatedRoot

T4 = PciAddress.parse("0000:af:00.0")
M40 = PciAddress.parse("0000:86:00.0")
SLICE = "6f2c9d52-5d0c-4b7c-9d0e-5f6f4b8a3c11"

State = dict[str, tuple[str | None, str]]


@pytest.fixture
def t4(tmp_path: Path) -> SimulatedRoot:
    return simulate.build(simulate.load("t4"), tmp_path / "t4")


def state(host: SimulatedRoot) -> State:
    found, problems = pci.functions(host)
    assert problems == []
    return {str(one.address): (binding.driver(host, one.address), binding.override(host, one.address)) for one in found}


@pytest.mark.parametrize("address", [T4, M40], ids=str)
@pytest.mark.parametrize("code", [errno.EBUSY, errno.ENODEV, errno.EIO, errno.EINVAL], ids=errno.errorcode.get)
def test_a_card_goes_and_comes_back_after_each_write_has_failed_once(
    t4: SimulatedRoot, address: PciAddress, code: int
) -> None:
    origin = state(t4)
    known = vfio.originals(t4, unit.find(t4, address))
    plan = vfio.plan_bind(t4, unit.find(t4, address))
    fail_each(t4, plan, code)
    assert binding.driver(t4, address) == "vfio-pci"
    plan = vfio.plan_release(t4, unit.find(t4, address), known)
    fail_each(t4, plan, code)
    assert state(t4) == origin


def fail_each(host: SimulatedRoot, plan: Plan, code: int) -> None:
    start = state(host)
    for failing in range(1, len(plan.steps) + 1):
        host.fail(code, nth=failing)
        with pytest.raises(HostError) as caught:
            vfio.apply(host, plan)
        assert caught.value.errno == code
        assert state(host) == start
    vfio.apply(host, plan)


def test_a_sliced_card_is_refused_until_its_slices_are_gone_and_offers_its_types_again_afterwards(
    t4: SimulatedRoot,
) -> None:
    types = mdev.types(t4, str(T4))
    mdev.create(t4, str(T4), "nvidia-223", SLICE)
    with pytest.raises(Conflict, match=SLICE) as caught:
        vfio.plan_bind(t4, unit.find(t4, T4))
    assert caught.value.code == "mdevs-exist"
    mdev.remove(t4, SLICE)
    known = vfio.originals(t4, unit.find(t4, T4))
    vfio.apply(t4, vfio.plan_bind(t4, unit.find(t4, T4)))
    assert mdev.types(t4, str(T4)) == []
    vfio.apply(t4, vfio.plan_release(t4, unit.find(t4, T4), known))
    assert mdev.types(t4, str(T4)) == types


def test_a_lent_card_is_not_taken_from_its_guest(t4: SimulatedRoot) -> None:
    known = vfio.originals(t4, unit.find(t4, M40))
    vfio.apply(t4, vfio.plan_bind(t4, unit.find(t4, M40)))
    t4.hold(str(M40), pid=611)
    with pytest.raises(Conflict, match=r"pid 611 \(qemu-system-x86\) has /dev/vfio/37 open"):
        vfio.plan_release(t4, unit.find(t4, M40), known)
    t4.let_go(611)
    vfio.apply(t4, vfio.plan_release(t4, unit.find(t4, M40), known))
    assert binding.driver(t4, M40) == "nvidia"


def test_a_reboot_forgets_the_binding_and_it_can_be_done_again(t4: SimulatedRoot) -> None:
    origin = state(t4)
    vfio.apply(t4, vfio.plan_bind(t4, unit.find(t4, M40)))
    t4.reboot()
    assert state(t4) == origin
    vfio.apply(t4, vfio.plan_bind(t4, unit.find(t4, M40)))
    assert vfio.is_bound(t4, unit.find(t4, M40))


@pytest.mark.parametrize("name", simulate.packaged())
def test_every_card_of_every_shipped_host_that_can_be_lent_whole_goes_and_comes_back(name: str, tmp_path: Path) -> None:
    host = simulate.build(simulate.load(name), tmp_path / name)
    origin = state(host)
    for card in (one.address for one in pci.functions(host)[0] if one.class_code in CARD_CLASSES):
        found = unit.find(host, card)
        if not unit.objections(host, found):
            known = vfio.originals(host, found)
            vfio.apply(host, vfio.plan_bind(host, found))
            assert vfio.is_bound(host, unit.find(host, card))
            vfio.apply(host, vfio.plan_release(host, unit.find(host, card), known))
        assert state(host) == origin
