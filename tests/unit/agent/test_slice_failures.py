"""Making and removing a slice fails, on a card of NVIDIA, on integrated graphics with GVT-g, and on what is no PCI function: by an errno of
the driver's, by a guest that holds it, or half-done. All is as before, and the next try succeeds."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.unit.agent.lab import INTEGRATED, T4, Lab

from cantle import simulate
from cantle.agent.cleaning import REMOVED
from cantle.kernel import mdev
from cantle.model.attach_handle import AttachType
from cantle.wire.work import HandleResult, Outcome, WantedHandle

UUID = "11111111-2222-4333-8444-555555555555"
OTHER = "11111111-2222-4333-8444-666666666666"
PARENTS = {
    "T4": ("mixed-lab", T4, "nvidia-223", "nvidia-234"),
    "GVT-g": ("mixed-lab", INTEGRATED, "i915-GVTg_V5_8", "i915-GVTg_V5_4"),
    "mtty": ("mtty", "mtty", "mtty-2", "mtty-1"),
}
ERRNOS = [errno.EBUSY, errno.EIO, errno.EINVAL, errno.ENOSPC, errno.EAGAIN, errno.EPERM]


@pytest.fixture(params=list(PARENTS.values()), ids=list(PARENTS))
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Lab, WantedHandle, str]:
    """The host, a unit of it, and another type of the same parent."""
    host, parent, type_id, other = request.param
    return (
        Lab(tmp_path, described=simulate.load(host)),
        WantedHandle(UUID, parent, AttachType.MDEV, {"asked_type": type_id}),
        other,
    )


def room(lab: Lab, unit: WantedHandle) -> dict[str, int]:
    return {one.type_id: one.available_instances for one in mdev.types(lab.root, unit.device)}


@pytest.mark.parametrize("code", ERRNOS, ids=errno.errorcode.get)
def test_a_driver_that_refuses_to_make_it(case: tuple[Lab, WantedHandle, str], code: int) -> None:
    lab, unit, _ = case
    before = room(lab, unit)
    lab.root.fail(code, "/create")
    [failed] = lab.do(unit)
    assert failed.outcome is Outcome.FAILED
    assert failed.code in ("mdev-refused", "mdev-no-room")
    assert unit.device in str(failed.message)
    assert (mdev.devices(lab.root), room(lab, unit)) == ([], before)
    assert lab.do(unit) == [HandleResult(UUID, Outcome.READY)]


@pytest.mark.parametrize("code", ERRNOS, ids=errno.errorcode.get)
def test_a_driver_that_refuses_to_remove_it(case: tuple[Lab, WantedHandle, str], code: int) -> None:
    lab, unit, _ = case
    before = room(lab, unit)
    lab.do(unit)
    lab.root.fail(code, "/remove")
    [failed] = lab.do(back=[unit])
    assert (failed.outcome, failed.code) == (Outcome.FAILED, "mdev-refused")
    assert [one.uuid for one in mdev.devices(lab.root)] == [UUID]
    assert lab.do(back=[unit]) == [HandleResult(UUID, Outcome.ABSENT, cleaning=REMOVED)]
    assert (mdev.devices(lab.root), room(lab, unit)) == ([], before)


@pytest.mark.parametrize("code", ERRNOS, ids=errno.errorcode.get)
def test_a_driver_that_does_it_and_answers_with_an_error_all_the_same(
    case: tuple[Lab, WantedHandle, str], code: int
) -> None:
    lab, unit, _ = case
    lab.root.fail(code, "/create", after=True)
    assert lab.do(unit) == [HandleResult(UUID, Outcome.READY)]
    lab.root.fail(code, "/remove", after=True)
    assert lab.do(back=[unit]) == [HandleResult(UUID, Outcome.ABSENT, cleaning=REMOVED)]
    assert mdev.devices(lab.root) == []


def test_a_guest_that_holds_it_keeps_it_and_is_named(case: tuple[Lab, WantedHandle, str]) -> None:
    lab, unit, _ = case
    lab.do(unit)
    lab.root.hold(UUID, pid=4711)
    [held] = lab.do(back=[unit])
    assert (held.outcome, held.code) == (Outcome.FAILED, "mdev-in-use")
    assert "pid 4711 (qemu-system-x86)" in str(held.message)
    assert [one.uuid for one in mdev.devices(lab.root)] == [UUID]
    lab.root.let_go(4711)
    assert lab.do(back=[unit]) == [HandleResult(UUID, Outcome.ABSENT, cleaning=REMOVED)]


def test_a_parent_that_is_full_of_another_type_names_what_fills_it(case: tuple[Lab, WantedHandle, str]) -> None:
    lab, unit, other = case
    filling: list[str] = []
    while room(lab, unit)[other] > 0:
        filling.append(f"{OTHER[:-2]}{len(filling):02}")
        mdev.create(lab.root, unit.device, other, filling[-1])
    assert room(lab, unit)[unit.attach_info["asked_type"]] == 0
    [failed] = lab.do(unit)
    assert (failed.outcome, failed.code) == (Outcome.FAILED, "mdev-no-room")
    assert all(uuid in str(failed.message) for uuid in filling)
    assert sorted(one.uuid for one in mdev.devices(lab.root)) == filling
    for uuid in filling:
        mdev.remove(lab.root, uuid)
    assert lab.do(unit) == [HandleResult(UUID, Outcome.READY)]
