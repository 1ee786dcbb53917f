"""Each thing that the documents behind Cantle ask for has tests, by name: ``spec.yaml`` beside this file."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

TESTS = Path(__file__).parents[2]
SPEC: dict[str, dict[str, object]] = yaml.safe_load(Path(__file__).with_name("spec.yaml").read_text(encoding="utf-8"))


@cache
def named(place: str) -> frozenset[str]:
    """The names of a directory's test functions, or of a story's steps."""
    if place.endswith(".yaml"):
        return frozenset(step["name"] for step in yaml.safe_load((TESTS / place).read_text(encoding="utf-8"))["story"])
    text = "\n".join(file.read_text(encoding="utf-8") for file in sorted((TESTS / place).glob("test_*.py")))
    return frozenset(re.findall(r"^def (test_\w+)", text, re.MULTILINE))


@pytest.mark.parametrize("requirement", SPEC)
def test_every_requirement_has_its_tests(requirement: str) -> None:
    tests = SPEC[requirement]["tests"]
    assert isinstance(tests, list)
    assert any(str(one).startswith(("unit/", "stories/")) for one in tests), "none that every machine can run"
    for one in tests:
        place, _, name = str(one).partition("::")
        assert name in named(place), one


def test_no_requirement_is_left_out() -> None:
    documents = {"S0": 9, "S1": 6, "S2": 6, "S3": 11, "S4": 9}
    assert list(SPEC) == [f"{one}.{number}" for one, most in documents.items() for number in range(1, most + 1)]
