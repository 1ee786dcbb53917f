"""What becomes of a card when a container gives it back: reset where that is possible, and on its driver again."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.service import M40

from cantle import simulate
from cantle.agent.converge import observe, plan
from cantle.agent.desired import Desired, DesiredFile
from cantle.agent.hands import Hands
from cantle.model.attach_handle import AttachType
from cantle.wire.work import Cleaning, Guest, HandleResult, Outcome, WantedHandle, Work

UUID = "11111111-2222-4333-8444-555555555555"
TRAIN = Guest("cdi", "train", "2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1")
CARD = WantedHandle(UUID, M40, AttachType.PCI, {}, TRAIN)
SLICE = WantedHandle(UUID, "0000:07:00.0", AttachType.NODES, {"gpu_instance": "5", "compute_instance": "0"}, TRAIN)


class Case:
    """A card that a container has."""

    def __init__(
        self, place: Path, *, required: bool = False, resets: tuple[str, ...] = ("flr",), unit: WantedHandle = CARD
    ) -> None:
        found = simulate.load("mig" if unit is SLICE else "t4")
        functions = tuple(msgspec.structs.replace(one, resets=resets) for one in found.functions)
        self.root = simulate.build(msgspec.structs.replace(found, functions=functions), place / "host")
        self.hands = Hands(self.root, DesiredFile(place), Desired(), require_reset=required)
        self.unit = unit
        self.told: list[str] = []
        self.hands.on_cleaning = self.told.append
        assert self._do(Work(1, (unit,))).outcome is Outcome.READY

    def _do(self, work: Work) -> HandleResult:
        [result] = self.hands.perform(plan(work, observe(self.root, work, self.hands.memory.taken)))
        return result

    def give_back(self) -> HandleResult:
        return self._do(Work(2, (), (self.unit,)))

    def resets(self) -> int:
        return sum(path.endswith("/reset") for path, _ in self.root.written)

    def driver(self) -> str | None:
        return self.root.link_name(f"sys/bus/pci/devices/{M40}/driver")

    def used_by_the_host(self) -> None:
        """A daemon has it open, as nvidia-persistenced does."""
        place = Path(self.root.path, "proc/777/fd")
        place.mkdir(parents=True)
        (place.parent / "comm").write_text("nvidia-persiste\n")
        os.symlink("/dev/nvidia1", place / "3")


def test_a_card_that_comes_back_from_a_container_is_reset_and_is_on_its_driver_again(tmp_path: Path) -> None:
    case = Case(tmp_path)
    result = case.give_back()
    assert (result.outcome, result.cleaning) == (
        Outcome.ABSENT,
        Cleaning("flr", f"{M40} was reset (flr) and read back"),
    )
    assert (case.resets(), case.driver(), case.told) == (1, "nvidia", [UUID])


def test_a_card_that_offers_no_reset_is_lent_again_unless_one_is_required(tmp_path: Path) -> None:
    result = Case(tmp_path / "first", resets=()).give_back()
    assert (result.outcome, result.cleaning) == (
        Outcome.ABSENT,
        Cleaning("none", f"{M40} offers no reset, so nothing was done to it"),
    )
    case = Case(tmp_path / "second", resets=(), required=True)
    result = case.give_back()
    assert (result.outcome, result.code) == (Outcome.QUARANTINED, "reset-not-offered")
    assert case.driver() == "nvidia"


@pytest.mark.parametrize("required", [False, True])
def test_a_card_that_the_host_itself_uses_is_not_taken_from_its_driver(tmp_path: Path, *, required: bool) -> None:
    """NVIDIA's module would wait for its daemon without end."""
    case = Case(tmp_path, required=required)
    case.used_by_the_host()
    result = case.give_back()
    if required:
        assert (result.outcome, result.code) == (Outcome.QUARANTINED, "reset-not-possible")
        assert "nvidia-persiste" in str(result.message)
    else:
        assert result.outcome is Outcome.ABSENT
        assert result.cleaning is not None
        assert "nothing was done: the host itself uses it: pid 777 (nvidia-persiste)" in result.cleaning.done
    assert (case.resets(), case.driver()) == (0, "nvidia")


def test_a_reset_that_fails_leaves_the_card_in_quarantine_on_its_driver_until_it_works(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.root.fail(errno.EIO, "/reset")
    result = case.give_back()
    assert (result.outcome, result.code) == (Outcome.QUARANTINED, "reset-failed")
    assert case.driver() == "nvidia"
    assert case.give_back().outcome is Outcome.ABSENT


def test_a_driver_that_does_not_take_its_card_again_is_said(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.root.fail(errno.EBUSY, "/nvidia/bind")
    result = case.give_back()
    assert (result.outcome, result.code) == (Outcome.QUARANTINED, "reset-failed")
    assert "it is on no driver now" in str(result.message)
    assert case.give_back().outcome is Outcome.ABSENT
    assert case.driver() == "nvidia"


def test_a_card_that_its_driver_does_not_let_go_of_is_not_reset(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.root.fail(errno.EBUSY, "/nvidia/unbind")
    result = case.give_back()
    assert (result.outcome, result.code) == (Outcome.QUARANTINED, "reset-failed")
    assert (case.resets(), case.driver()) == (0, "nvidia")


def test_the_hosts_console_is_left_alone(tmp_path: Path) -> None:
    case = Case(tmp_path)
    Path(case.root.path, f"sys/bus/pci/devices/{M40}/boot_vga").write_text("1\n")
    result = case.give_back()
    assert result.cleaning == Cleaning("none", f"nothing was done: the host's console is on {M40}")
    assert (case.resets(), case.driver()) == (0, "nvidia")


def test_a_mig_slice_is_not_reset_since_others_use_its_card(tmp_path: Path) -> None:
    case = Case(tmp_path, unit=SLICE, required=True)
    result = case.give_back()
    assert result.outcome is Outcome.ABSENT
    assert result.cleaning is not None
    assert result.cleaning.done.startswith("nothing was done: a MIG slice")
    assert case.resets() == 0
