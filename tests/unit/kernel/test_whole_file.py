"""Files of the system's are replaced whole, with what they had, and never outside of the root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cantle.errors import HostError
from cantle.kernel.root import Root


def test_a_file_is_made_with_the_directories_above_it(tmp_path: Path) -> None:
    Root(tmp_path).replace("run/cdi/a.json", b"{}")
    assert (tmp_path / "run/cdi/a.json").read_bytes() == b"{}"
    assert (tmp_path / "run/cdi/a.json").stat().st_mode & 0o777 == 0o644


def test_a_file_that_is_there_keeps_its_mode_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("old")
    file.chmod(0o640)
    (tmp_path / ".config.cantle-new").write_text("of a process that was killed")
    Root(tmp_path).replace("config", b"new")
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["config"]


def test_a_link_in_the_files_place_is_not_followed_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("theirs")
    (tmp_path / "config").symlink_to("elsewhere")
    with pytest.raises(HostError, match="no plain file") as caught:
        Root(tmp_path).replace("config", b"new")
    assert caught.value.code == "host-write-failed"
    assert (tmp_path / "elsewhere").read_text() == "theirs"
    assert (tmp_path / "config").is_symlink()


def test_an_absolute_link_on_the_way_stays_below_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "run").mkdir(parents=True)
    (root / "var").mkdir()
    (root / "var/run").symlink_to("/run")
    Root(root).replace("var/run/cdi/a.json", b"{}")
    assert (root / "run/cdi/a.json").read_bytes() == b"{}"


def test_a_file_on_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(HostError, match="Not a directory"):
        Root(tmp_path).replace("run/cdi/a.json", b"{}")
