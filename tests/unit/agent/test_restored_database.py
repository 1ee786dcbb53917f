"""A server whose database was restored from a backup names an earlier generation: the host holds still until a person has spoken, and
whatever somebody holds is lent to nobody, whatever the database says."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.agent.life import FIRST, READY, SECOND, THIRD, Life, card, slice_
from tests.unit.agent.service import M40, T4
from tests.unit.agent.test_end_to_end import kernel_files

from cantle import simulate
from cantle.agent import following
from cantle.agent.desired import Desired
from cantle.kernel import mdev
from cantle.model.device import Health, Mode
from cantle.wire.intent import DeviceIntent
from cantle.wire.work import Outcome, Work

WHOLE = DeviceIntent(M40, 1, Mode.PASSTHROUGH)


@pytest.fixture
def life(t4: simulate.SimulatedRoot, tmp_path: Path) -> Life:
    return Life(t4, tmp_path / "agent")


def test_a_host_that_is_ahead_prepares_and_removes_nothing_and_says_so(life: Life) -> None:
    life.follow(7, slice_(FIRST), card())
    before, written = kernel_files(life.root), len(life.root.written)
    assert (
        life.follow(
            5, slice_(THIRD, mark=1), back=[slice_(FIRST), card()], intents=[DeviceIntent(T4, 1, Mode.PASSTHROUGH)]
        )
        == {}
    )
    assert life.settle() == {}
    told = life.conditions()
    assert "this host has followed generation 7, and its server is at 5" in told["host-frozen"]
    assert life.report().generation == 7
    assert (kernel_files(life.root), len(life.root.written)) == (before, written)
    assert life.upkeep.new_units(Work(5, (slice_(THIRD), slice_(FIRST)))) == [slice_(THIRD)]


def test_it_stays_frozen_over_restarts_and_whatever_generations_come_until_it_is_confirmed(life: Life) -> None:
    life.follow(7, slice_(FIRST))
    life.follow(5)
    life = life.next()
    for generation in (6, 7, 8, 100):
        assert life.follow(generation, slice_(FIRST), slice_(THIRD, mark=1), confirmed=6) == {}
        assert "host-frozen" in life.conditions()
    assert life.report().generation == 7
    assert [one.uuid for one in mdev.devices(life.root)] == [FIRST]
    done = life.follow(101, slice_(FIRST), slice_(THIRD, mark=1), confirmed=7)
    assert [done[one].outcome for one in (FIRST, THIRD)] == [READY, READY]
    assert "host-frozen" not in life.conditions()
    assert life.report().generation == 101


def test_a_frozen_host_that_reboots_makes_ready_again_what_its_guests_had(life: Life) -> None:
    life.follow(7, slice_(FIRST), card())
    before = kernel_files(life.root)
    life.follow(5)
    life.root.reboot()
    life = life.next()
    assert kernel_files(life.root) == before
    assert life.follow(5) == {}
    assert kernel_files(life.root) == before


def test_what_was_lent_after_the_backup_stays_with_its_guest_is_not_offered_and_goes_when_the_guest_does(
    life: Life,
) -> None:
    life.follow(7, slice_(FIRST), slice_(THIRD, mark=1))
    life.root.hold(THIRD, pid=4711)
    life.follow(5, slice_(FIRST))
    life.follow(8, slice_(FIRST), confirmed=7)
    assert {one.uuid for one in mdev.devices(life.root)} == {FIRST, THIRD}
    told = life.conditions()
    assert "pid 4711" in told["units-left-behind"]
    assert "foreign-mdevs" not in told
    assert life.units(T4) == 7
    life.root.let_go(4711)
    life.settle()
    assert [one.uuid for one in mdev.devices(life.root)] == [FIRST]
    assert life.conditions() == {}
    assert life.units(T4) == 8
    assert life.upkeep.memory.leftovers == ()


def test_a_unit_that_a_stranger_holds_is_lent_to_nobody_whatever_the_database_says(life: Life) -> None:
    life.follow(0)
    mdev.create(life.root, T4, "nvidia-223", FIRST)
    life.root.hold(FIRST, pid=4711)
    result = life.follow(1, slice_(FIRST))[FIRST]
    assert (result.outcome, result.code) == (Outcome.FAILED, "mdev-in-use")
    assert "pid 4711" in str(result.message)
    life.root.let_go(4711)
    assert life.settle()[FIRST].outcome is READY


def test_a_card_that_a_stranger_holds_is_lent_to_nobody_and_not_offered(life: Life) -> None:
    life.follow(1, intents=[WHOLE])
    life.root.hold(M40, pid=4711)
    life.upkeep.look_at_everything()
    [device] = [one for one in life.report().devices if one.address == M40]
    assert device.health is Health.DEGRADED
    assert [one.handles for one in device.deployables] == [()]
    assert "pid 4711" in str(device.reason)
    result = life.follow(2, card(), intents=[WHOLE])[SECOND]
    assert (result.outcome, result.code) == (Outcome.FAILED, "device-held")
    life.root.let_go(4711)
    assert life.settle()[SECOND].outcome is READY
    life.upkeep.look_at_everything()
    assert life.units(M40) == 1


def test_a_unit_that_is_wanted_for_another_loan_at_once_is_not_ready_while_the_one_before_holds_it(life: Life) -> None:
    """A restored database has forgotten a loan, and has lent so much since that its generation is not behind any more."""
    first, second = (msgspec.structs.replace(slice_(FIRST), loan=loan) for loan in (SECOND, THIRD))
    assert life.follow(1, first)[FIRST].outcome is READY
    life.root.hold(FIRST, pid=4711)
    assert life.follow(2, first)[FIRST].outcome is READY, "it is his"
    refused = life.follow(3, second)[FIRST]
    assert (refused.outcome, "4711" in str(refused.message)) == (Outcome.FAILED, True)
    life = life.next()
    assert life.follow(3, second)[FIRST].outcome is Outcome.FAILED, "another life does not forget that"
    life.root.let_go(4711)
    assert life.settle()[FIRST].outcome is READY


@pytest.mark.parametrize("named", [True, False], ids=["being taken back", "named no more"])
def test_a_unit_whose_loan_had_ended_is_not_ready_for_the_next_while_the_one_before_holds_it(
    life: Life, named: bool
) -> None:
    """The database was restored to a time before that loan, and has lent the unit anew before its host could speak."""
    first, second = (msgspec.structs.replace(slice_(FIRST), loan=loan) for loan in (SECOND, THIRD))
    assert life.follow(1, first)[FIRST].outcome is READY
    life.root.hold(FIRST, pid=4711)
    # An ended lease has no request any more. Where nothing is named, there is nothing to tell the server of.
    life.upkeep.follow(Work(2, unwanted=(slice_(FIRST),) if named else ()))
    life.upkeep.settle()
    refused = life.follow(3, second)[FIRST]
    assert (refused.outcome, "4711" in str(refused.message)) == (Outcome.FAILED, True)
    assert life.next().follow(3, second)[FIRST].outcome is Outcome.FAILED, "another life does not forget that"
    life.root.let_go(4711)
    assert life.settle()[FIRST].outcome is READY


def test_an_agent_that_starts_again_knows_its_own_guests_from_strangers(life: Life) -> None:
    life.follow(1, slice_(FIRST), card())
    life.root.hold(FIRST)
    life.root.hold(M40, pid=4243)
    life = life.next()
    done = life.follow(1, slice_(FIRST), card())
    assert [done[one].outcome for one in (FIRST, SECOND)] == [READY, READY]
    life.root.let_go()
    life.root.let_go(4243)
    life.follow(2, back=[slice_(FIRST), card()])
    mdev.create(life.root, T4, "nvidia-223", FIRST)
    life.root.hold(FIRST)
    assert life.follow(3, slice_(FIRST))[FIRST].code == "mdev-in-use"


def test_what_an_earlier_version_of_the_agent_had_lent_counts_as_its_own(life: Life) -> None:
    life.follow(1, slice_(FIRST))
    life.root.hold(FIRST)
    (life.directory / "handed.json").unlink()
    assert life.next().follow(1, slice_(FIRST))[FIRST].outcome is READY


def test_an_agent_that_has_lost_all_its_memory_believes_the_server_what_is_lent(life: Life) -> None:
    life.follow(1, slice_(FIRST), card())
    life.root.hold(FIRST)
    life.root.hold(M40, pid=4243)
    for name in ("handed.json", "desired.json"):
        (life.directory / name).unlink()
    life = life.next()
    done = life.follow(1, slice_(FIRST), card())
    assert [done[one].outcome for one in (FIRST, SECOND)] == [READY, READY]
    mdev.create(life.root, T4, "nvidia-223", THIRD)
    life.root.hold(THIRD, pid=4244)
    assert life.follow(2, slice_(FIRST), card(), slice_(THIRD, mark=1))[THIRD].code == "mdev-in-use"


def test_a_file_of_handed_units_that_is_damaged_believes_nobody(life: Life) -> None:
    life.follow(1, slice_(FIRST))
    life.root.hold(FIRST)
    (life.directory / "handed.json").write_text("{")
    life = life.next()
    assert life.follow(1, slice_(FIRST))[FIRST].code == "mdev-in-use"
    life.root.let_go()
    assert life.settle()[FIRST].outcome is READY


def test_a_unit_made_by_a_life_that_was_killed_before_it_could_tell_is_lent_by_the_next(life: Life) -> None:
    life.upkeep.follow(Work(1, (slice_(FIRST), card())))
    life.upkeep.settle()  # and nobody was told
    done = life.next().follow(1, slice_(FIRST), card())
    assert [done[one].outcome for one in (FIRST, SECOND)] == [READY, READY]


works = st.builds(Work, generation=st.integers(0, 9), confirmed=st.integers(0, 9))


@given(st.lists(works, max_size=12))
def test_a_host_never_follows_a_lower_generation_unless_that_was_confirmed(history: list[Work]) -> None:
    memory, highest = Desired(), 0
    for work in history:
        at = following.frozen_at(memory, work)
        if at:
            assert work.confirmed < at
            memory = Desired(memory.work, frozen_at=at)
        else:
            assert work.generation >= highest or work.confirmed >= highest
            memory = following.next_memory(memory, work)
            highest = work.generation
        assert following.followed(memory) >= highest


@given(st.lists(st.tuples(st.sets(st.sampled_from("abcd")), st.sets(st.sampled_from("abcd"))), max_size=6))
def test_a_unit_that_the_server_names_no_more_is_left_behind_until_it_is_gone_or_named_again(
    history: list[tuple[set[str], set[str]]],
) -> None:
    memory = Desired()
    ever: set[str] = set()
    for generation, (wanted, back) in enumerate(history, start=1):
        work = Work(
            generation,
            tuple(slice_(one) for one in sorted(wanted)),
            tuple(slice_(one) for one in sorted(back - wanted)),
        )
        memory = following.next_memory(memory, work)
        ever |= wanted | back
        assert {one.uuid for one in memory.leftovers} == ever - wanted - back
    emptied = following.next_memory(memory, Work(99), gone=ever)
    assert emptied.leftovers == ()
