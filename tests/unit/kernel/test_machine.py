"""Which machine this is, and which boot of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cantle.kernel import machine
from cantle.kernel.root import Root


def test_this_machine_has_a_boot() -> None:
    assert len(machine.boot_id(Root())) == 36


@pytest.mark.parametrize(
    ("text", "found"),
    [("0123456789abcdef0123456789abcdef\n", "0123456789abcdef0123456789abcdef"), ("", ""), ("uninitialized\n", "")],
)
def test_a_machine_that_was_never_given_an_id_has_none(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "machine-id").write_text(text)
    assert machine.machine_id(Root(tmp_path)) == found


def test_what_is_not_there_or_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert (machine.machine_id(Root(tmp_path)), machine.boot_id(Root(tmp_path))) == ("", "")
    os.makedirs(tmp_path / "etc" / "machine-id")
    assert machine.machine_id(Root(tmp_path)) == ""
