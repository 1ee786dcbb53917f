"""From desired and observed to tasks: pure, complete, and nothing that is not ours."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cantle.agent.converge import DROP_MDEV, LEND_WHOLE, MAKE_MDEV, SEE_FREE, TAKE_BACK_WHOLE, Observed, Task, plan
from cantle.kernel.mdev import MdevDevice
from cantle.model.attach_handle import AttachType
from cantle.wire.work import Outcome, WantedHandle, Work

T4 = "0000:af:00.0"
M40 = "0000:86:00.0"
FIRST = "11111111-2222-4333-8444-555555555555"
SECOND = "11111111-2222-4333-8444-666666666666"


def slice_(uuid: str = FIRST, type_id: str = "nvidia-223") -> WantedHandle:
    return WantedHandle(uuid, T4, AttachType.MDEV, {"asked_type": type_id})


CARD = WantedHandle(SECOND, M40, AttachType.PCI, {})


def here(*mdevs: MdevDevice, bound: tuple[str, ...] = (), taken: tuple[str, ...] = ()) -> Observed:
    return Observed({one.uuid: one for one in mdevs}, frozenset(bound), frozenset(taken))


MADE = MdevDevice(FIRST, "nvidia-223", T4)


def names(tasks: list[Task]) -> list[tuple[str, str | None]]:
    return [(task.handle.uuid, task.step.name if task.step is not None else None) for task in tasks]


def test_what_is_wanted_and_not_there_is_made() -> None:
    [task] = plan(Work(1, (slice_(),)), here())
    assert task.goal is Outcome.READY
    assert task.step is not None
    assert (task.step.name, task.step.target, task.step.args) == (
        MAKE_MDEV,
        FIRST,
        {"parent": T4, "type": "nvidia-223"},
    )
    assert task.step.sentence == f"make {FIRST} of type nvidia-223 on {T4}"
    assert task.step.reversible
    assert not task.step.disruptive


def test_what_is_as_wanted_needs_nothing() -> None:
    assert plan(Work(1, (slice_(), CARD)), here(MADE, bound=(M40,))) == [
        Task(slice_(), Outcome.READY),
        Task(CARD, Outcome.READY),
    ]
    assert plan(Work(1, (), (slice_(), CARD)), here()) == [Task(slice_(), Outcome.ABSENT), Task(CARD, Outcome.ABSENT)]


def test_what_is_taken_back_comes_first() -> None:
    work = Work(1, (slice_(SECOND),), (slice_(),))
    assert names(plan(work, here(MADE))) == [(FIRST, DROP_MDEV), (SECOND, MAKE_MDEV)]


def test_a_start_without_the_server_takes_nothing_back() -> None:
    work = Work(1, (slice_(SECOND),), (slice_(),))
    assert names(plan(work, here(MADE), restore=True)) == [(SECOND, MAKE_MDEV)]


def test_a_card_goes_and_comes_back_whole() -> None:
    assert names(plan(Work(1, (CARD,)), here())) == [(SECOND, LEND_WHOLE)]
    assert names(plan(Work(1, (), (CARD,)), here(bound=(M40,), taken=(M40,)))) == [(SECOND, TAKE_BACK_WHOLE)]


def test_a_card_that_we_did_not_take_is_not_given_back() -> None:
    """One that an operator keeps on vfio-pci stays there, once nobody has it; one that is on another driver is nobody's."""
    assert names(plan(Work(1, (), (CARD,)), here(bound=(M40,)))) == [(SECOND, SEE_FREE)]
    assert names(plan(Work(1, (), (CARD,)), here())) == [(SECOND, None)]


def test_an_mdev_that_only_has_our_uuid_is_left_alone() -> None:
    other = MdevDevice(FIRST, "nvidia-222", T4)
    [task] = plan(Work(1, (), (slice_(),)), here(other))
    assert task.step is None
    assert task.refusal is not None
    code, message = task.refusal
    assert code == "mdev-not-ours"
    assert "nvidia-222" in message
    assert "nvidia-223" in message


def test_a_unit_without_its_type_is_refused_by_name() -> None:
    [task] = plan(Work(1, (WantedHandle(FIRST, T4, AttachType.MDEV, {}),)), here())
    assert task.refusal is not None
    assert task.refusal[0] == "unit-malformed"


def test_units_for_tests_need_nothing() -> None:
    unit = WantedHandle(FIRST, T4, AttachType.TEST_PCI, {})
    assert plan(Work(1, (unit,)), here()) == [Task(unit, Outcome.READY)]
    assert plan(Work(1, (), (unit,)), here()) == [Task(unit, Outcome.ABSENT)]


UUIDS = [f"{number}1111111-2222-4333-8444-555555555555" for number in range(6)]
HANDLES = st.builds(slice_, st.sampled_from(UUIDS), st.sampled_from(["nvidia-222", "nvidia-223"]))
MDEVS = st.builds(MdevDevice, st.sampled_from(UUIDS), st.sampled_from(["nvidia-222", "nvidia-223"]), st.just(T4))


@given(st.lists(HANDLES, unique_by=lambda one: one.uuid), st.data(), st.lists(MDEVS, unique_by=lambda one: one.uuid))
def test_every_unit_gets_one_task_and_what_is_in_neither_list_none(
    handles: list[WantedHandle], data: st.DataObject, mdevs: list[MdevDevice]
) -> None:
    wanted = data.draw(st.lists(st.sampled_from(handles), unique_by=lambda one: one.uuid)) if handles else []
    unwanted = [one for one in handles if one not in wanted]
    tasks = plan(Work(1, tuple(wanted), tuple(unwanted)), here(*mdevs))
    assert sorted(task.handle.uuid for task in tasks) == sorted(one.uuid for one in handles)
    dropped = {task.step.target for task in tasks if task.step is not None and task.step.name == DROP_MDEV}
    assert dropped <= {one.uuid for one in unwanted} & {one.uuid for one in mdevs}
    after = {one.uuid: one for one in mdevs if one.uuid not in dropped}
    for task in tasks:
        if task.step is not None and task.step.name == MAKE_MDEV and task.step.target not in after:
            after[task.step.target] = MdevDevice(task.step.target, task.step.args["type"], task.step.args["parent"])
    again = plan(Work(1, tuple(wanted), tuple(unwanted)), here(*after.values()))
    settled = {task.handle.uuid for task in tasks if task.handle.uuid not in {one.uuid for one in mdevs}}
    assert all(task.step is None for task in again if task.handle.uuid in settled)
