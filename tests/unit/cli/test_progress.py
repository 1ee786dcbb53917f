"""What takes longer than a moment says so on a terminal, and nowhere else."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from cantle.cli import progress
from cantle.cli.progress import Progress


class Screen(io.StringIO):
    """Standard error as a terminal, or not; ``drawn`` is set when something was written."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        """See the base class."""
        return self._terminal

    def write(self, text: str) -> int:
        """See the base class."""
        self.drawn.set()
        return super().write(text)


def test_a_line_appears_says_what_is_known_and_is_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    screen = Screen(terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress("Waiting for lease 1") as line:
        line.show("pending")
        assert screen.drawn.wait(30)
    shown = screen.getvalue()
    assert shown.startswith("\rWaiting for lease 1 … pending (0 s)")
    assert shown.endswith(" \r")
    assert "\n" not in shown


def test_what_is_done_at_once_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress("Waiting"):
        pass
    assert screen.getvalue() == ""


def test_in_a_pipe_there_is_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.001)
    screen = Screen(terminal=False)
    monkeypatch.setattr(sys, "stderr", screen)
    before = set(threading.enumerate())
    with Progress("Waiting"):
        assert set(threading.enumerate()) <= before, "others may just end"
    assert screen.getvalue() == ""


def test_whatever_ends_the_work_the_line_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    screen = Screen(terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)

    def interrupted() -> None:
        with Progress("Waiting"):
            assert screen.drawn.wait(30)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert screen.getvalue().endswith(" \r")
