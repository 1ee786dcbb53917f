"""The disk is full, the clock is wrong: each ends right and is said in the host's conditions."""

from __future__ import annotations

import errno
import fcntl
import os
from functools import cache
from pathlib import Path

import pytest
from tests.unit.agent.life import ABSENT, FIRST, READY, SECOND, THIRD, Life, card, slice_
from tests.unit.agent.test_end_to_end import kernel_files

from cantle import simulate
from cantle.kernel import mdev
from cantle.wire.work import Outcome

#: What the kernel says of each write into such a file.
WHY = os.strerror(errno.EPERM)


@pytest.fixture
def life(t4: simulate.SimulatedRoot, tmp_path: Path) -> Life:
    return Life(t4, tmp_path / "agent")


@cache
def no_room() -> str:
    """A file that opens, and into which nothing can be written, for root and anybody: it must not grow. (``/dev/full`` is others' too: an
    agent of root's that takes it for a file of its own sets its mode, for the whole machine; one of a user's may not.)"""
    file = os.memfd_create("full", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    return f"/proc/{os.getpid()}/fd/{file}"


def fill(directory: Path) -> None:
    """Whatever is written into the state directory from now on finds no room: the file is there, its content fails."""
    for name in ("desired.new", "handed.next"):
        (directory / name).unlink(missing_ok=True)
        (directory / name).symlink_to(no_room())


def make_room(directory: Path) -> None:
    for name in ("desired.new", "handed.next"):
        (directory / name).unlink()


def test_with_a_full_disk_new_units_are_refused_and_what_is_lent_can_be_given_back(life: Life) -> None:
    life.follow(1, slice_(FIRST))
    fill(life.directory)
    before = kernel_files(life.root)
    done = life.follow(2, slice_(FIRST), slice_(THIRD, mark=1), card())
    assert done[FIRST].outcome is READY
    for one in (THIRD, SECOND):
        assert (done[one].outcome, done[one].code) == (Outcome.FAILED, "agent-state-unwritable")
        assert WHY in str(done[one].message)
    assert kernel_files(life.root) == before
    assert WHY in life.conditions()["agent-state-unwritable"]
    assert life.follow(3, back=[slice_(FIRST)])[FIRST].outcome is ABSENT
    assert mdev.devices(life.root) == []


def test_when_there_is_room_again_what_waited_is_done_and_the_condition_ends(life: Life) -> None:
    fill(life.directory)
    assert life.follow(1, slice_(FIRST), card())[FIRST].outcome is Outcome.FAILED
    assert "agent-state-unwritable" in life.conditions()
    make_room(life.directory)
    assert life.conditions() == {}
    done = life.settle()
    assert [done[one].outcome for one in (FIRST, SECOND)] == [READY, READY]
    assert {one.uuid for one in life.next().upkeep.memory.work.wanted} == {FIRST, SECOND}  # type: ignore[union-attr]


def test_a_life_that_begins_with_a_full_disk_restores_what_was_lent_and_reports(life: Life) -> None:
    life.follow(1, slice_(FIRST), card())
    before = kernel_files(life.root)
    life.root.reboot()
    fill(life.directory)
    life = life.next()
    assert kernel_files(life.root) == before
    assert "agent-state-unwritable" in life.conditions()
    done = life.follow(1, slice_(FIRST), card())
    assert [done[one].outcome for one in (FIRST, SECOND)] == [READY, READY]


def test_a_unit_given_back_on_a_full_disk_is_not_made_again_for_good_by_a_life_that_has_only_the_old_memory(
    life: Life,
) -> None:
    life.follow(1, slice_(FIRST))
    fill(life.directory)
    life.follow(2, back=[slice_(FIRST)])
    life.follow(3)
    life = life.next()  # it knows generation 1 alone
    assert [one.uuid for one in mdev.devices(life.root)] == [FIRST]
    life.follow(3)
    make_room(life.directory)
    life.settle()
    assert mdev.devices(life.root) == []
    assert life.conditions() == {}


def test_a_card_that_cannot_be_remembered_is_not_taken_from_its_driver(life: Life) -> None:
    before = kernel_files(life.root)
    life.follow(1, card())
    life.follow(2, back=[card()])
    assert kernel_files(life.root) == before
    fill(life.directory)
    life.follow(3, card())
    assert kernel_files(life.root) == before


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_wrong_by_an_hour_is_told_and_changes_nothing_else(life: Life, hours: int) -> None:
    first = life.report()
    life.follow(1, slice_(FIRST))
    life.wall += 3600 * hours
    assert life.settle()[FIRST].outcome is READY
    second = life.report()
    assert (second.clock or 0) - (first.clock or 0) == 3600 * hours
    assert life.follow(2, back=[slice_(FIRST)])[FIRST].outcome is ABSENT
    assert life.report().digest == first.digest


def test_each_life_counts_and_names_machine_and_boot(life: Life) -> None:
    Path(life.root.path, "etc").mkdir(exist_ok=True)
    Path(life.root.path, "etc", "machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    random = Path(life.root.path, "proc", "sys", "kernel", "random")
    random.mkdir(parents=True)
    (random / "boot_id").write_text("6f2c9d52-5d0c-4b7c-9d0e-5f6f4b8a3c11\n")
    first = life.next().report()
    second = life.next().report()
    assert (first.starts, second.starts) == (2, 3)
    assert (first.boot, second.boot) == ("6f2c9d52-5d0c-4b7c-9d0e-5f6f4b8a3c11",) * 2
    assert first.machine == second.machine
    assert len(first.machine) == 32
    assert "0123456789abcdef" not in first.machine
    assert first.version
