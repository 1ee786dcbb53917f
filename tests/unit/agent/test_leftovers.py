"""Reconcile: what is lent is there, what is not lent any more goes when nobody holds it, and what others made is shown and left."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.agent.life import ABSENT, FIRST, READY, SECOND, THIRD, Life, card, slice_
from tests.unit.agent.service import M40, T4
from tests.unit.agent.test_end_to_end import kernel_files

from cantle import simulate
from cantle.kernel import mdev
from cantle.wire.work import Outcome, Work

FOREIGN = "99999999-2222-4333-8444-555555555555"


@pytest.fixture
def life(t4: simulate.SimulatedRoot, tmp_path: Path) -> Life:
    return Life(t4, tmp_path / "agent")


def define(life: Life, uuid: str, parent: str = T4) -> Path:
    """As ``mdevctl define --auto`` does."""
    file = Path(life.root.path, "etc", "mdevctl.d", parent, uuid)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('{"mdev_type": "nvidia-223", "start": "auto", "attrs": []}')
    return file


def test_what_is_lent_is_made_again_when_it_has_gone_with_the_same_uuid_and_function(life: Life) -> None:
    life.follow(1, slice_(FIRST), card())
    before = kernel_files(life.root)
    mdev.remove(life.root, FIRST)
    life.root.write(f"sys/bus/pci/devices/{M40}/driver_override", "\n")
    life.root.write("sys/bus/pci/drivers/vfio-pci/unbind", M40)
    life.root.write("sys/bus/pci/drivers/nvidia/bind", M40)
    assert kernel_files(life.root) != before
    life.settle()
    assert kernel_files(life.root) == before


def test_with_the_server_away_it_is_made_again_too_and_nothing_is_taken_back(life: Life) -> None:
    life.follow(1, slice_(FIRST))
    life.root.hold(FIRST)
    life.follow(2, slice_(THIRD, mark=1), back=[slice_(FIRST)])
    life.root.let_go()
    mdev.remove(life.root, THIRD)
    life.upkeep.keep_ready()
    assert {one.uuid for one in mdev.devices(life.root)} == {FIRST, THIRD}


def test_a_life_that_has_not_heard_its_server_yet_makes_it_again_too(life: Life) -> None:
    """A driver that came late after a reboot, with the server away: the slice came with the server."""
    life.follow(1, slice_(FIRST))
    life = life.next()
    mdev.remove(life.root, FIRST)
    life.upkeep.keep_ready()
    assert [one.uuid for one in mdev.devices(life.root)] == [FIRST]


def test_a_frozen_host_makes_nothing_again_while_its_server_is_away(life: Life) -> None:
    life.follow(2, slice_(FIRST))
    mdev.remove(life.root, FIRST)
    assert life.upkeep.follow(Work(1)) is not None
    life.upkeep.keep_ready()
    assert mdev.devices(life.root) == []


def test_units_of_ended_leases_that_the_server_has_forgotten_go_once_nobody_holds_them(life: Life) -> None:
    before = kernel_files(life.root)
    life.follow(1, slice_(FIRST), card())
    life.root.hold(FIRST, pid=1)
    life.root.hold(M40, pid=2)
    assert life.follow(2) == {}
    told = life.conditions()["units-left-behind"]
    assert "pid 1 " in told
    assert "pid 2 " in told
    assert life.units(M40) == 0
    life = life.next()
    life.follow(2)
    life.root.let_go(1)
    life.root.let_go(2)
    life.settle()
    assert kernel_files(life.root) == before
    assert life.conditions() == {}


def test_a_forgotten_card_that_is_wanted_again_under_another_uuid_stays_where_it_is(life: Life) -> None:
    life.follow(1, card(SECOND))
    written = len(life.root.written)
    assert life.follow(2, card(THIRD))[THIRD].outcome is READY
    assert len(life.root.written) == written
    life.follow(3, back=[card(THIRD)])
    life.settle()
    assert life.root.link_name(f"sys/bus/pci/devices/{M40}/driver") == "nvidia"
    assert life.upkeep.memory.leftovers == ()


def test_a_unit_that_was_given_back_leaves_nothing_to_remember(life: Life) -> None:
    life.follow(1, slice_(FIRST))
    assert life.follow(2, back=[slice_(FIRST)])[FIRST].outcome is ABSENT
    life.follow(3)
    assert life.upkeep.memory.leftovers == ()


def test_mediated_devices_of_others_are_shown_and_left(life: Life) -> None:
    mdev.create(life.root, T4, "nvidia-223", FOREIGN)
    file = define(life, FOREIGN)
    life.follow(1, slice_(FIRST))
    life.follow(2, back=[slice_(FIRST)])
    life.follow(3)
    told = life.conditions()["foreign-mdevs"]
    assert f"did not make, left alone and counted as used: {FOREIGN} (nvidia-223 on {T4})" in told
    assert [one.uuid for one in mdev.devices(life.root)] == [FOREIGN]
    assert file.exists()
    mdev.remove(life.root, FOREIGN)
    assert life.conditions() == {}


@pytest.mark.parametrize("parent", [T4, "0000:ee:00.0"])
def test_a_unit_that_another_tool_would_make_again_at_boot_is_undefined_when_it_is_given_back(
    life: Life, parent: str
) -> None:
    life.follow(1, slice_(FIRST))
    ours, other = define(life, FIRST, parent), define(life, FOREIGN)
    life.root.hold(FIRST)
    result = life.follow(2, back=[slice_(FIRST)])[FIRST]
    assert (result.outcome, result.code) == (Outcome.FAILED, "mdev-in-use")
    assert ours.exists()
    life.root.let_go()
    assert life.settle()[FIRST].outcome is ABSENT
    assert mdev.devices(life.root) == []
    assert (ours.exists(), other.exists()) == (False, True)


def test_one_that_was_removed_by_hand_and_is_still_defined_is_undefined_too(life: Life) -> None:
    life.follow(1, slice_(FIRST))
    file = define(life, FIRST)
    mdev.remove(life.root, FIRST)
    assert life.follow(2, back=[slice_(FIRST)])[FIRST].outcome is ABSENT
    assert not file.exists()


def test_a_lent_unit_keeps_its_definition_while_it_is_lent(life: Life) -> None:
    file = define(life, FIRST)
    life.follow(1, slice_(FIRST))
    life.settle()
    assert file.exists()
