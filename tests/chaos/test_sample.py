"""A few points of the crash matrix and a few rounds of the race, in processes of their own. ``make chaos`` does all."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: One of each role and action, at steps where there is something to lose.
POINTS = {
    "sqlite": (
        "bind/agent/written-create/1/kill",
        "bind/agent/written-unbind/1/power",
        "bind/api/insert-claims/1/cut-database",
        "bind/keeper/nova-batch-over/1/kill",
    ),
    "postgresql": (
        "bind/api/patch-accelerator_requests-to-answer/1/kill",
        "bind/keeper/post-os-server-external-events-sent/1/kill",
        "bind/agent/post-results-to-send/1/cut-database",
        "bind/keeper/post-hook-to-send/1/cut-receiver",
    ),
}


def chaos(*words: str) -> str:
    """What a module of ours prints; it must end well."""
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", POINTS)
def test_a_bind_ends_as_asked_whoever_dies_or_is_cut_off(kind: str) -> None:
    points = [word for point in POINTS[kind] for word in ("--point", point)]
    said = chaos("tests.chaos", "--database", kind, *points)
    assert f"{kind}: {len(POINTS[kind])} points, 0 failed" in said


def test_of_sixteen_processes_that_want_eight_units_eight_get_one_each() -> None:
    assert "16 won, each unit once" in chaos("tests.chaos.race", "--database", "postgresql", "--rounds", "2")
