"""Tasks on the host: to the end or back to the start, and nobody else's things touched."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest
from tests.unit.agent.lab import GEFORCE
from tests.unit.agent.service import M40, T4

from cantle import simulate
from cantle.agent import cleaning
from cantle.agent.converge import observe, plan
from cantle.agent.desired import Desired, DesiredFile
from cantle.agent.hands import Hands
from cantle.kernel import mdev
from cantle.model.attach_handle import AttachType
from cantle.wire.work import Cleaning, HandleResult, Outcome, WantedHandle, Work

FIRST = "11111111-2222-4333-8444-555555555555"
SECOND = "11111111-2222-4333-8444-666666666666"
CARD = WantedHandle(SECOND, M40, AttachType.PCI, {})
RESET = Cleaning("flr", f"{M40} was reset (flr) and read back")


def slice_(uuid: str = FIRST, type_id: str = "nvidia-223") -> WantedHandle:
    return WantedHandle(uuid, T4, AttachType.MDEV, {"asked_type": type_id})


@pytest.fixture
def file(tmp_path: Path) -> DesiredFile:
    return DesiredFile(tmp_path)


@pytest.fixture
def hands(t4: simulate.SimulatedRoot, file: DesiredFile) -> Hands:
    return Hands(t4, file, Desired())


def do(
    root: simulate.SimulatedRoot, hands: Hands, *wanted: WantedHandle, back: tuple[WantedHandle, ...] = ()
) -> list[HandleResult]:
    work = Work(1, wanted, back)
    return hands.perform(plan(work, observe(root, work, hands.memory.taken)))


def driver(root: simulate.SimulatedRoot, address: str = M40) -> str | None:
    return root.link_name(f"sys/bus/pci/devices/{address}/driver")


def test_one_failure_stops_no_other(t4: simulate.SimulatedRoot, hands: Hands) -> None:
    first, second = do(t4, hands, slice_(FIRST, "nvidia-999"), slice_(SECOND))
    assert (first.outcome, first.code) == (Outcome.FAILED, "mdev-type-missing")
    assert "nvidia-999" in str(first.message)
    assert second == HandleResult(SECOND, Outcome.READY)


def test_a_uuid_that_somebody_else_uses_fails_and_his_device_stays(t4: simulate.SimulatedRoot, hands: Hands) -> None:
    mdev.create(t4, T4, "nvidia-222", FIRST)
    [result] = do(t4, hands, slice_())
    assert (result.outcome, result.code) == (Outcome.FAILED, "mdev-uuid-taken")
    assert mdev.devices(t4) == [mdev.MdevDevice(FIRST, "nvidia-222", T4)]


def test_a_full_card_names_who_is_in_the_way(t4: simulate.SimulatedRoot, hands: Hands) -> None:
    mdev.create(t4, T4, "nvidia-225", SECOND)
    [result] = do(t4, hands, slice_())
    assert (result.outcome, result.code) == (Outcome.FAILED, "mdev-no-room")
    assert "nvidia-225" in str(result.message)
    assert SECOND in str(result.message)


def killed(root: simulate.SimulatedRoot, file: DesiredFile, nth: int, *, after: bool, work: Work) -> bool:
    """Do the work in another process that is killed at its nth write; whether it got that far."""
    child = os.fork()
    if child == 0:
        root.fail(lambda: os.kill(os.getpid(), signal.SIGKILL), nth=nth, after=after)
        memory = file.load()
        hands = Hands(root, file, memory)
        hands.perform(plan(work, observe(root, work, memory.taken)))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def state(root: simulate.SimulatedRoot) -> dict[str, str | None]:
    found: dict[str, str | None] = {one.uuid: one.type_id for one in mdev.devices(root)}
    override = root.read(f"sys/bus/pci/devices/{M40}/driver_override")
    return found | {"driver": driver(root), "override": override}


@pytest.mark.parametrize("unit", [slice_(), CARD], ids=["slice", "card"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("lending", [False, True], ids=["return", "bind"])
def test_killed_at_any_write_the_next_life_goes_either_way(
    t4: simulate.SimulatedRoot, file: DesiredFile, unit: WantedHandle, after: bool, lending: bool
) -> None:
    start = state(t4)
    work = Work(1, (unit,)) if lending else Work(1, (), (unit,))
    for nth in range(1, 10):
        for next_work in (Work(2, (unit,)), Work(2, (), (unit,))):
            if not lending:
                do(t4, Hands(t4, file, file.load()), unit)
            died = killed(t4, file, nth, after=after, work=work)
            hands = Hands(simulate.SimulatedRoot(t4.path), file, file.load())
            [result] = hands.perform(plan(next_work, observe(t4, next_work, hands.memory.taken)))
            assert result.outcome is (Outcome.READY if next_work.wanted else Outcome.ABSENT)
            if next_work.unwanted:
                assert state(t4) == start
            else:
                assert state(t4) != start
            do(t4, hands, back=(unit,))
            assert state(t4) == start
            assert file.load().taken == {}
        if not died:
            assert nth == (2 if unit.attach_type is AttachType.MDEV else 4 if lending else 5), (
                "a card that comes back is reset too"
            )
            return
    raise AssertionError("the change has no end")


def test_it_is_forgotten_when_the_card_is_back_and_when_it_was_never_taken(
    t4: simulate.SimulatedRoot, hands: Hands, file: DesiredFile
) -> None:
    t4.fail(errno.EIO, "/bind")
    [result] = do(t4, hands, CARD)
    assert (result.outcome, result.code) == (Outcome.FAILED, "driver-bind-refused")
    assert driver(t4) == "nvidia"
    assert file.load().taken == {}
    assert do(t4, hands, CARD) == [HandleResult(SECOND, Outcome.READY)]
    assert M40 in file.load().taken
    assert do(t4, hands, back=(CARD,)) == [HandleResult(SECOND, Outcome.ABSENT, cleaning=RESET)]
    assert driver(t4) == "nvidia"
    assert file.load().taken == {}


def test_a_card_that_an_operator_keeps_on_vfio_pci_stays_there_and_is_clean_for_the_next(
    t4: simulate.SimulatedRoot, hands: Hands
) -> None:
    t4.write(f"sys/bus/pci/devices/{M40}/driver_override", "vfio-pci")
    t4.write("sys/bus/pci/drivers/nvidia/unbind", M40)
    t4.write("sys/bus/pci/drivers/vfio-pci/bind", M40)
    writes = len(t4.written)
    assert do(t4, hands, CARD) == [HandleResult(SECOND, Outcome.READY)]
    t4.hold(M40)
    [result] = do(t4, hands, back=(CARD,))
    assert (result.outcome, result.code) == (Outcome.FAILED, "device-held"), "its guest has it still"
    assert len(t4.written) == writes
    t4.let_go()
    assert do(t4, hands, back=(CARD,)) == [HandleResult(SECOND, Outcome.ABSENT, cleaning=RESET)]
    assert driver(t4) == "vfio-pci"


def test_a_card_that_a_guest_still_uses_is_not_taken_from_it(t4: simulate.SimulatedRoot, hands: Hands) -> None:
    do(t4, hands, CARD)
    t4.hold(M40, pid=77, command="qemu-system-x86")
    [result] = do(t4, hands, back=(CARD,))
    assert (result.outcome, result.code) == (Outcome.FAILED, "device-held")
    assert "77" in str(result.message)
    assert driver(t4) == "vfio-pci"
    t4.let_go(77)
    assert do(t4, hands, back=(CARD,)) == [HandleResult(SECOND, Outcome.ABSENT, cleaning=RESET)]
    assert driver(t4) == "nvidia"


def test_a_card_that_was_pulled_out_is_held_by_nobody(t4: simulate.SimulatedRoot, hands: Hands) -> None:
    do(t4, hands, CARD)
    t4.unplug(M40)
    [result] = do(t4, hands, CARD)
    assert result.outcome is Outcome.FAILED
    assert do(t4, hands, back=(CARD,)) == [HandleResult(SECOND, Outcome.ABSENT, cleaning=cleaning.NOTHING)]


def test_doing_it_all_again_writes_nothing(t4: simulate.SimulatedRoot, hands: Hands) -> None:
    do(t4, hands, slice_(), CARD)
    writes = len(t4.written)
    assert [one.outcome for one in do(t4, hands, slice_(), CARD)] == [Outcome.READY, Outcome.READY]
    assert len(t4.written) == writes


def test_a_driver_that_does_the_work_and_then_says_no_has_done_the_work(
    t4: simulate.SimulatedRoot, hands: Hands
) -> None:
    t4.fail(errno.EIO, "/create", after=True)
    assert do(t4, hands, slice_()) == [HandleResult(FIRST, Outcome.READY)]
    t4.fail(errno.EIO, "/remove", after=True)
    assert do(t4, hands, back=(slice_(),)) == [HandleResult(FIRST, Outcome.ABSENT, cleaning=cleaning.REMOVED)]
    assert mdev.devices(t4) == []


def test_a_removal_that_the_kernel_refuses_fails_and_can_be_tried_again(
    t4: simulate.SimulatedRoot, hands: Hands
) -> None:
    do(t4, hands, slice_())
    t4.fail(errno.EBUSY, "/remove")
    [result] = do(t4, hands, back=(slice_(),))
    assert (result.outcome, result.code) == (Outcome.FAILED, "mdev-refused")
    assert do(t4, hands, back=(slice_(),)) == [HandleResult(FIRST, Outcome.ABSENT, cleaning=cleaning.REMOVED)]


def test_a_card_that_a_stranger_has_by_iommufd_is_not_lent_although_its_audio_is_still_the_hosts(
    tmp_path: Path, file: DesiredFile
) -> None:
    """Of such a half there are steps for the audio function alone, and by iommufd a guest has a node of the card's own."""
    root = simulate.build(simulate.load("mixed-lab"), tmp_path / "lab")
    at = f"sys/bus/pci/devices/{GEFORCE}"
    root.write(f"{at}/driver_override", "vfio-pci")
    root.write("sys/bus/pci/drivers/nvidia/unbind", GEFORCE)
    root.write("sys/bus/pci/drivers/vfio-pci/bind", GEFORCE)
    for place in (f"{at}/vfio-dev/vfio0", "proc/4711/fd"):
        (Path(root.path) / place).mkdir(parents=True)
    (Path(root.path) / "proc/4711/comm").write_text("qemu-system-x86\n")
    (Path(root.path) / "proc/4711/fd/3").symlink_to("/dev/vfio/devices/vfio0")
    work = Work(1, (WantedHandle(SECOND, GEFORCE, AttachType.PCI, {}),))
    hands = Hands(root, file, Desired())
    (result,) = hands.perform(plan(work, observe(root, work, {}, handed=frozenset())))
    assert (result.outcome, result.code) == (Outcome.FAILED, "device-held")
    assert "4711" in str(result.message)
    assert driver(root, f"{GEFORCE[:-1]}1") == "snd_hda_intel"
    root.let_go(4711)
    (result,) = hands.perform(plan(work, observe(root, work, {}, handed=frozenset())))
    assert result.outcome is Outcome.READY


def test_a_failure_that_is_tried_again_each_second_is_told_once_and_so_is_its_end(
    t4: simulate.SimulatedRoot, hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    """Nine slices whose driver was gone after a kernel update wrote nine lines a second."""
    wrong = slice_(FIRST, "nvidia-999")
    for _ in range(3):
        do(t4, hands, wrong)
    (line,) = [record.getMessage() for record in caplog.records]
    assert FIRST in line
    assert "does not offer nvidia-999" in line
    do(t4, hands, slice_(FIRST))
    do(t4, hands, slice_(FIRST))
    assert [record.getMessage() for record in caplog.records[1:]] == [f"unit {FIRST} is ready after all"]
    do(t4, hands, wrong)
    hands.keep([])
    do(t4, hands, wrong)
    assert len(caplog.records) == 4


def test_a_slice_that_could_not_be_made_is_taken_back_without_a_word_of_after_all(
    t4: simulate.SimulatedRoot, hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = slice_(FIRST, "nvidia-999")
    do(t4, hands, wrong)
    do(t4, hands, back=(wrong,))
    (line,) = [record.getMessage() for record in caplog.records]
    assert "does not offer nvidia-999" in line


def test_another_failure_of_the_same_unit_is_told_too(
    t4: simulate.SimulatedRoot, hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    for type_id in ("nvidia-999", "nvidia-998", "nvidia-998"):
        do(t4, hands, slice_(FIRST, type_id))
    first, second = [record.getMessage() for record in caplog.records]
    assert ("nvidia-999" in first, "nvidia-998" in second) == (True, True)


def test_the_end_of_a_card_that_somebody_kept_is_told_in_plain_words(
    t4: simulate.SimulatedRoot, hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    do(t4, hands, CARD)
    t4.hold(M40)
    do(t4, hands, back=(CARD,))
    t4.let_go()
    do(t4, hands, back=(CARD,))
    held, over = (record.getMessage() for record in caplog.records)
    assert held.startswith(f"unit {SECOND}: could not ")
    assert "is in use" in held
    assert over == f"unit {SECOND} is taken back after all"
