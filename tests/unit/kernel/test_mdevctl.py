"""Mediated devices that another tool makes again at boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from cantle.errors import HostError
from cantle.kernel import mdevctl
from cantle.kernel.root import Root

ONE, OTHER = "11111111-2222-4333-8444-555555555555", "11111111-2222-4333-8444-666666666666"


def define(root: Path, parent: str, uuid: str) -> Path:
    file = root / "etc" / "mdevctl.d" / parent / uuid
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}")
    return file


def test_a_host_without_mdevctl_defines_nothing(tmp_path: Path) -> None:
    root = Root(tmp_path)
    assert (mdevctl.defined(root), mdevctl.definitions(root, ONE), mdevctl.undefine(root, ONE)) == (frozenset(), [], [])


def test_a_device_is_undefined_under_every_parent_and_no_other_is(tmp_path: Path) -> None:
    root = Root(tmp_path)
    ours = [define(tmp_path, parent, ONE) for parent in ("0000:af:00.0", "mtty")]
    other = define(tmp_path, "mtty", OTHER)
    (tmp_path / "etc" / "mdevctl.d" / "scripts.d" / "callouts").mkdir(parents=True)
    assert {ONE, OTHER} <= mdevctl.defined(root)
    assert mdevctl.undefine(root, ONE) == [f"/etc/mdevctl.d/{parent}/{ONE}" for parent in ("0000:af:00.0", "mtty")]
    assert [file.exists() for file in (*ours, other)] == [False, False, True]
    assert mdevctl.undefine(root, ONE) == []


def test_a_definition_that_cannot_be_removed_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "etc" / "mdevctl.d" / "mtty" / ONE).mkdir(parents=True)
    with pytest.raises(HostError, match=f"/etc/mdevctl.d/mtty/{ONE}"):
        mdevctl.undefine(Root(tmp_path), ONE)


def test_removing_a_file_stays_below_the_root(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ONE).write_text("{}")
    (tmp_path / "root" / "etc" / "mdevctl.d").mkdir(parents=True)
    (tmp_path / "root" / "etc" / "mdevctl.d" / "mtty").symlink_to(outside)
    root = Root(tmp_path / "root")
    root.remove(f"etc/mdevctl.d/mtty/{ONE}")
    assert (outside / ONE).exists()
