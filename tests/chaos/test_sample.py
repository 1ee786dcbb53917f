"""A few points of the crash matrix and a few rounds of the race, in processes of their own. ``make chaos`` does all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

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

#: Of a first publication: the keeper dies while Placement is at work, Placement is at work and does not say so, or says that it is broken.
PUBLISHING = (
    "publish/publisher/put-inventories-sent/1/kill",
    "publish/publisher/put-traits-to-send/2/placement-silent",
    "publish/publisher/post-resource_providers-to-send/2/placement-500",
)


def chaos(*words: str) -> str:
    """What a module of ours prints; it must end well."""
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def at(kind: str, points: Sequence[str]) -> str:
    """What is said of these points."""
    return chaos("tests.chaos", "--database", kind, *(word for point in points for word in ("--point", point)))


@pytest.mark.parametrize("kind", POINTS)
def test_a_bind_ends_as_asked_whoever_dies_or_is_cut_off(kind: str) -> None:
    assert f"{kind}: {len(POINTS[kind])} points, 0 failed" in at(kind, POINTS[kind])


def test_a_publication_ends_with_every_unit_in_placement_whoever_dies_or_says_nothing() -> None:
    assert f"sqlite: {len(PUBLISHING)} points, 0 failed" in at("sqlite", PUBLISHING)


def test_of_sixteen_processes_that_want_eight_units_eight_get_one_each() -> None:
    assert "16 won, each unit once" in chaos("tests.chaos.race", "--database", "postgresql", "--rounds", "2")
