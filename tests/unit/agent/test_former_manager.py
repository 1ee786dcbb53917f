"""Units that a former manager lent, once `cantle placement adopt` has made its requests ours: the steps of docs/placement.md on a host."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.agent.life import FIRST, READY, SECOND, Life, card, slice_
from tests.unit.agent.service import M40, T4
from tests.unit.agent.test_end_to_end import kernel_files

from cantle import simulate
from cantle.kernel import mdev
from cantle.wire.work import Outcome


@pytest.fixture
def life(t4: simulate.SimulatedRoot, tmp_path: Path) -> Life:
    return Life(t4, tmp_path / "agent")


def test_guests_keep_what_they_have_and_the_host_offers_all_its_units_again(life: Life) -> None:
    mdev.create(life.root, T4, "nvidia-223", FIRST)
    life.root.hold(FIRST, pid=4711)
    life.follow(0)
    assert life.units(T4) == 7, "a stranger has one"
    before = kernel_files(life.root)
    assert life.follow(1, slice_(FIRST, mark=2))[FIRST].code == "mdev-in-use", "nobody has said whose it is"
    assert kernel_files(life.root) == before
    for name in ("handed.json", "desired.json"):
        (life.directory / name).unlink()
    life = life.next()
    assert life.follow(1, slice_(FIRST, mark=2))[FIRST].outcome is READY
    assert life.units(T4) == 8
    assert kernel_files(life.root) == before, "nothing was done to it"
    life.root.let_go(4711)
    life.follow(2, back=[slice_(FIRST, mark=2)])
    life.settle()
    assert mdev.devices(life.root) == []


def test_a_card_that_a_guest_has_whole_is_offered_to_nobody_until_he_lets_go(life: Life, tmp_path: Path) -> None:
    Life(life.root, tmp_path / "former").follow(1, card())  # as the former one left it: on vfio-pci
    life.root.hold(M40, pid=4243)
    before = kernel_files(life.root)
    life.follow(0)
    assert life.units(M40) == 0
    assert kernel_files(life.root) == before
    life.root.let_go(4243)
    assert life.next().units(M40) == 1


def test_a_card_that_a_guest_has_whole_is_its_own_once_the_server_says_so(life: Life, tmp_path: Path) -> None:
    Life(life.root, tmp_path / "former").follow(1, card())
    life.root.hold(M40, pid=4243)
    before = kernel_files(life.root)
    life = life.next()  # with nothing on its disk: it believes
    result = life.follow(1, card())[SECOND]
    assert result.outcome is READY
    assert life.units(M40) == 1
    assert kernel_files(life.root) == before, "nothing was done to it"
    back = life.follow(2, back=[card()])[SECOND]
    assert (back.outcome, back.code) == (Outcome.FAILED, "device-held"), "not before its guest has ended"
    life.root.let_go(4243)
    back = life.settle()[SECOND]
    assert back.outcome is Outcome.ABSENT
    assert back.cleaning is not None, "the next one finds nothing of the former"
    assert life.root.link_name(f"sys/bus/pci/devices/{M40}/driver") == "vfio-pci", "it stays where it was found"
    assert life.units(M40) == 1
