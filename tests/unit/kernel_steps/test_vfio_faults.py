"""Whatever write fails, and however: the end state is the start state or the error says what is not, and a retry succeeds."""

from __future__ import annotations

import errno

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.unit.kernel_steps.pci_bus import PciBus

from cantle.errors import CantleError, HostError
from cantle.kernel import unit, vfio
from cantle.kernel.vfio import Original
from cantle.model.pci import PciAddress
from cantle.model.step import Plan

CARD = PciAddress.parse("0000:01:00.0")
ORIGIN: dict[str, tuple[str | None, str]] = {
    "0000:01:00.0": ("nvidia", ""),
    "0000:01:00.1": ("snd_hda_intel", ""),
    "0000:01:00.2": ("xhci_hcd", ""),
    "0000:01:00.3": (None, ""),
}
ERRNOS = [errno.EBUSY, errno.ENODEV, errno.EIO, errno.EINVAL]


def planned(host: PciBus, known: tuple[Original, ...], *, back: bool) -> Plan:
    card = unit.find(host, CARD)
    return vfio.plan_release(host, card, known) if back else vfio.plan_bind(host, card)


@pytest.mark.parametrize("back", [False, True], ids=["to vfio", "back"])
@pytest.mark.parametrize("code", ERRNOS, ids=errno.errorcode.get)
def test_each_single_write_may_fail(host: PciBus, code: int, back: bool) -> None:
    known = vfio.originals(host, unit.find(host, CARD))
    if back:
        vfio.apply(host, planned(host, known, back=False))
    start = host.state()
    plan = planned(host, known, back=back)
    for failing in range(len(plan.steps)):
        host.writes.clear()
        host.fault = lambda number, failing=failing: (code, False) if number == failing else None  # type: ignore[misc]
        with pytest.raises(HostError) as caught:
            vfio.apply(host, plan)
        assert (caught.value.errno, caught.value.details["errno"]) == (code, errno.errorcode[code])
        assert caught.value.code in ("driver-override-refused", "driver-unbind-refused", "driver-bind-refused")
        assert caught.value.path == f"/{host.writes[failing][0]}"
        assert host.state() == start
        assert planned(host, known, back=back) == plan
    host.fault = lambda _number: None
    vfio.apply(host, plan)
    assert planned(host, known, back=back) == Plan()


@pytest.mark.parametrize("back", [False, True], ids=["to vfio", "back"])
def test_a_write_that_is_refused_and_done_all_the_same_counts_by_what_the_kernel_shows(
    host: PciBus, back: bool
) -> None:
    known = vfio.originals(host, unit.find(host, CARD))
    if back:
        vfio.apply(host, planned(host, known, back=False))
    host.fault = lambda _number: (errno.EIO, True)
    vfio.apply(host, planned(host, known, back=back))
    host.fault = lambda _number: None
    assert planned(host, known, back=back) == Plan()


@pytest.mark.parametrize("code", ERRNOS, ids=errno.errorcode.get)
def test_each_single_write_may_fail_when_the_kernel_has_to_choose_the_drivers(host: PciBus, code: int) -> None:
    vfio.apply(host, planned(host, (), back=False))
    start = host.state()
    plan = planned(host, (), back=True)
    assert "probe-drivers" in {step.name for step in plan.steps}
    for failing in range(len(plan.steps)):
        host.writes.clear()
        host.fault = lambda number, failing=failing: (code, False) if number == failing else None  # type: ignore[misc]
        with pytest.raises(HostError) as caught:
            vfio.apply(host, plan)
        assert (caught.value.errno, caught.value.path) == (code, f"/{host.writes[failing][0]}")
        assert host.state() == start
    host.fault = lambda _number: None
    vfio.apply(host, plan)
    assert host.state()["0000:01:00.1"] == ("snd_hda_intel", "")


def test_what_cannot_be_taken_back_is_listed_and_the_retry_still_succeeds(host: PciBus) -> None:
    start = host.state()
    known = vfio.originals(host, unit.find(host, CARD))
    plan = planned(host, known, back=False)
    host.fault = lambda number: (errno.EIO, False) if number >= len(plan.steps) - 1 else None
    with pytest.raises(HostError) as caught:
        vfio.apply(host, plan)
    assert caught.value.code == "undo-incomplete"
    assert caught.value.details["first"] == "driver-bind-refused"
    undone = caught.value.details["undo"]
    assert isinstance(undone, tuple)
    assert "give 0000:01:00.0 to nvidia again: " in undone[0]
    assert host.state() != start
    host.fault = lambda _number: None
    vfio.apply(host, planned(host, known, back=False))
    vfio.apply(host, planned(host, known, back=True))
    assert host.state() == start


def test_a_write_that_the_kernel_swallows_is_noticed(host: PciBus) -> None:
    start = host.state()
    plan = planned(host, (), back=False)
    last = len(plan.steps) - 1
    host.fault = lambda number: (0, False) if number == last else None
    with pytest.raises(HostError, match="accepted the request but did not carry it out") as caught:
        vfio.apply(host, plan)
    assert (caught.value.code, caught.value.errno) == ("driver-bind-refused", None)
    assert host.state() == start


faults = st.dictionaries(st.integers(0, 30), st.tuples(st.sampled_from([0, *ERRNOS]), st.booleans()), max_size=8)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([(False, {0: (0, True), 1: (0, True), 10: (0, False), 18: (0, False), 19: (0, False)})])  # fails while undoing
@given(rounds=st.lists(st.tuples(st.booleans(), faults), min_size=1, max_size=4))
def test_after_any_faults_in_any_number_of_changes_a_retry_reaches_both_ends(
    host: PciBus, rounds: list[tuple[bool, dict[int, tuple[int, bool]]]]
) -> None:
    host.restore(ORIGIN)
    known = vfio.originals(host, unit.find(host, CARD))
    for back, answers in rounds:
        start = host.state()
        plan = planned(host, known, back=back)
        host.writes.clear()
        host.fault = answers.get
        try:
            vfio.apply(host, plan)
        except CantleError as error:
            if error.code != "undo-incomplete":
                assert host.state() == start
        else:
            host.fault = lambda _number: None
            assert planned(host, known, back=back) == Plan()
        host.fault = lambda _number: None
        known = vfio.originals(host, unit.find(host, CARD), known)
    vfio.apply(host, planned(host, known, back=False))
    assert vfio.is_bound(host, unit.find(host, CARD))
    vfio.apply(host, planned(host, known, back=True))
    assert {address: host.state()[address] for address in ORIGIN} == ORIGIN
