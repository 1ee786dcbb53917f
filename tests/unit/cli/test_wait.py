"""Waiting for the server: as long as it takes, not longer than asked, through restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from cantle import errors
from cantle.cli.exit_codes import TimedOut
from cantle.cli.wait import wait_for


def answers(*given: Any) -> Callable[[float], dict[str, Any]]:
    """A server that gives these answers in turn, the last one for ever; an exception is raised."""
    left = list(given)

    def ask(_seconds: float) -> dict[str, Any]:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return {"state": answer}

    return ask


def settled(answer: dict[str, Any]) -> bool:
    return bool(answer["state"] == "active")


def test_the_answer_that_settles_it_is_returned() -> None:
    assert wait_for(answers("pending", "active"), settled, seconds=20, what="x") == {"state": "active"}


def test_a_server_that_is_away_for_a_while_is_waited_for() -> None:
    away = errors.Unavailable("server-unavailable", "away")
    assert wait_for(answers("pending", away, "active"), settled, seconds=20, what="x")["state"] == "active"


def test_after_the_timeout_it_says_that_what_was_asked_goes_on() -> None:
    with pytest.raises(TimedOut, match=r"Gave up waiting for lease 1 to become active after 0\.3 s; it goes on\.$"):
        wait_for(answers("pending"), settled, seconds=0.3, what="lease 1 to become active")


def test_after_the_timeout_it_says_that_the_server_was_away() -> None:
    with pytest.raises(TimedOut, match=r"it goes on\. Nobody there"):
        wait_for(answers(errors.Unavailable("server-unavailable", "Nobody there.")), settled, seconds=0.2, what="x")


def test_a_timeout_of_zero_looks_once() -> None:
    assert wait_for(answers("active"), settled, seconds=0, what="x") == {"state": "active"}
    with pytest.raises(TimedOut):
        wait_for(answers("pending"), settled, seconds=0, what="x")


def test_any_other_error_ends_the_waiting_at_once() -> None:
    with pytest.raises(errors.NotFound):
        wait_for(answers("pending", errors.NotFound("lease-not-found", "gone")), settled, seconds=20, what="x")


def test_the_server_is_never_asked_to_wait_longer_than_is_left() -> None:
    asked: list[float] = []

    def ask(seconds: float) -> dict[str, Any]:
        asked.append(seconds)
        return {"state": "pending"}

    with pytest.raises(TimedOut):
        wait_for(ask, settled, seconds=0.6, what="x")
    assert all(0 <= seconds <= 0.6 for seconds in asked)
    assert falling(asked)
    assert len(asked) <= 5  # paced, though this server answers at once


def falling(numbers: Iterable[float]) -> bool:
    """Whether each number is at most the one before."""
    listed = list(numbers)
    return listed == sorted(listed, reverse=True)
