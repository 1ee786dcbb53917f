"""``make demo`` does what it says, and whatever is left of one that was killed does not disturb the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cli.serving import PATIENCE, clean
from tests.unit.house.checkout import CHECKOUT

DEMO = [sys.executable, "-u", str(CHECKOUT / "tools" / "demo.py")]


def demo(place: Path) -> subprocess.Popen[str]:
    """Start a demo that keeps its things in ``place``."""
    environment = clean({"CANTLE_DEMO_DIR": str(place)})
    return subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def follow(process: subprocess.Popen[str], until: str) -> str:
    """What it says up to the line that begins so."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith(until):
            return "".join(said)
    raise AssertionError(f"it never said {until!r}:\n{''.join(said)}")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a demo keeps its things; with a blank in it, as in a home directory of some desktops."""
    return tmp_path / "a place"


def test_it_works_and_leaves_no_server(place: Path) -> None:
    with demo(place) as process:
        said, _ = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 0, said
    assert "It works." in said
    assert not alive(place)


@pytest.mark.parametrize("step", ["serve", "made"])
def test_one_that_is_killed_at_any_step_leaves_nothing_the_next_trips_over(place: Path, step: str) -> None:
    with demo(place) as first:
        follow(first, f"== {step}:")
        first.kill()
        first.wait(PATIENCE)
    with demo(place) as second:
        said, _ = second.communicate(timeout=2 * PATIENCE)
    assert second.returncode == 0, said
    assert not alive(place)


def test_two_at_once_in_one_place_are_told_apart(place: Path) -> None:
    with demo(place) as first:
        follow(first, "== serve:")
        with demo(place) as second:
            said, _ = second.communicate(timeout=PATIENCE)
        assert second.returncode == 1
        assert said == "demo: another demo is running in this checkout; end it first, or wait for it.\n"
        rest, _ = first.communicate(timeout=2 * PATIENCE)
        assert first.returncode == 0, rest


def test_a_step_that_fails_is_named(place: Path) -> None:
    """The server is taken away in the middle."""
    with demo(place) as process:
        follow(process, "== profile:")
        os.kill(int((place / "state" / "lock").read_text()), signal.SIGKILL)
        said, _ = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 1
    assert "demo: FAILED at step '" in said
    assert "Traceback" not in said


def alive(place: Path) -> bool:
    """Whether the server that last held the state still runs."""
    try:
        os.kill(int((place / "state" / "lock").read_text()), 0)
    except ProcessLookupError:
        return False
    return True
