"""What Cantle takes for a definition of mdevctl's is one: this is the real tool, on this machine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real import mdevctl as tool

from cantle.kernel import mdevctl
from cantle.kernel.root import Root

PARENT = "0000:ff:1f.7"


@pytest.fixture
def defined() -> Iterator[tuple[str, str]]:
    """Two devices that mdevctl would make at boot, on a card that is not there."""
    ours, others = str(uuid.uuid4()), str(uuid.uuid4())
    for one in (ours, others):
        tool.run("define", "--auto", "-u", one, "-p", PARENT, "-t", "nvidia-223")
    yield ours, others
    for path in Path("/etc/mdevctl.d", PARENT).glob("*"):
        path.unlink()
    Path("/etc/mdevctl.d", PARENT).rmdir()


def test_a_definition_is_seen_and_taken_away_and_those_of_others_stay(defined: tuple[str, str]) -> None:
    ours, others = defined
    root = Root("/")
    assert mdevctl.defined(root) >= {ours, others}
    assert mdevctl.undefine(root, ours) == [f"/etc/mdevctl.d/{PARENT}/{ours}"]
    listed = tool.run("list", "--defined")
    assert ours not in listed
    assert others in listed
    assert mdevctl.definitions(root, ours) == []
