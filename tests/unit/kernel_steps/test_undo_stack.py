"""The undo stack: all or nothing, and what could not be taken back is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cantle.errors import Conflict, HostError
from cantle.kernel.root import Root
from cantle.kernel.undo import Executor, Undo, run_steps
from cantle.model.step import Step


def step(name: str) -> Step:
    return Step(name, "0000:01:00.0", {}, True, False, name)


def adding(to: list[str], name: str) -> Executor:
    def run(_root: Root, _step: Step, undo: Undo) -> str | None:
        to.append(name)
        undo.push(f"remove {name}", lambda: to.remove(name))
        return f"{name} was added"

    return run


def failing(error: BaseException) -> Executor:
    def run(_root: Root, _step: Step, _undo: Undo) -> str | None:
        raise error

    return run


def refuse(message: str) -> Callable[[], None]:
    def way_back() -> None:
        raise HostError("driver-bind-refused", message)

    return way_back


def test_success_keeps_what_was_done_and_gives_the_notes_in_order(tmp_path: Path) -> None:
    done: list[str] = []
    executors = {"a": adding(done, "a"), "b": adding(done, "b")}
    assert run_steps(Root(tmp_path), [step("a"), step("b")], executors) == ["a was added", "b was added"]
    assert done == ["a", "b"]


@pytest.mark.parametrize("error", [Conflict("device-held", "held"), KeyError("bug"), KeyboardInterrupt()], ids=repr)
def test_any_failure_takes_everything_back_and_goes_on_unchanged(tmp_path: Path, error: BaseException) -> None:
    done: list[str] = []
    executors = {"a": adding(done, "a"), "b": adding(done, "b"), "c": failing(error)}
    with pytest.raises(type(error)) as caught:
        run_steps(Root(tmp_path), [step("a"), step("b"), step("c")], executors)
    assert caught.value is error
    assert done == []


def test_ways_back_run_in_reverse_and_a_failing_one_stops_none() -> None:
    order: list[str] = []
    first = HostError("driver-bind-refused", "nvidia did not take it", path="/sys/x", errno=5)

    def change() -> None:
        with Undo() as undo:
            undo.push("first", lambda: order.append("first"))
            undo.push("second", refuse("the device does not answer"))
            undo.push("third", lambda: order.append("third"))
            raise first

    with pytest.raises(HostError) as caught:
        change()
    assert order == ["third", "first"]
    assert caught.value.code == "undo-incomplete"
    assert caught.value.__cause__ is first
    assert (caught.value.path, caught.value.errno) == ("/sys/x", 5)
    assert caught.value.details["first"] == "driver-bind-refused"
    assert caught.value.details["undo"] == ("second: the device does not answer",)
    assert str(caught.value) == (
        "nvidia did not take it; and this could not be taken back: second: the device does not answer"
    )


def test_a_fault_of_the_program_itself_keeps_its_kind_and_gets_a_note() -> None:
    error = ZeroDivisionError("bug")

    def change() -> None:
        with Undo() as undo:
            undo.push("only", refuse("no"))
            raise error

    with pytest.raises(ZeroDivisionError) as caught:
        change()
    assert caught.value.__notes__ == ["bug; and this could not be taken back: only: no"]


def test_a_step_nobody_can_run_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    done: list[str] = []
    with pytest.raises(HostError, match="nothing here runs the step melt") as caught:
        run_steps(Root(tmp_path), [step("a"), step("melt")], {"a": adding(done, "a")})
    assert caught.value.code == "unknown-step"
    assert done == []


def test_a_caller_s_stack_answers_for_the_parts_it_was_handed(tmp_path: Path) -> None:
    done: list[str] = []

    def larger_change() -> None:
        with Undo() as undo:
            run_steps(Root(tmp_path), [step("a")], {"a": adding(done, "a")}, undo)
            assert done == ["a"]
            run_steps(Root(tmp_path), [step("b")], {"b": failing(Conflict("device-held", "held"))}, undo)

    with pytest.raises(Conflict):
        larger_change()
    assert done == []
