"""``cantle agent hooks``, below a directory."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cantle.attach.hooks.installed import ASK, LIBVIRT, LXC
from cantle.cli.main import run


def hooks(*words: str) -> int:
    return run(["agent", "hooks", *words])


def states(place: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    capsys.readouterr()
    assert hooks("show", "--root", str(place), "-o", "json", *words) == 0
    return {row["file"]: row["state"] for row in json.loads(capsys.readouterr().out)}


def test_hooks_are_installed_shown_and_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = [f"/{place}" for place in (ASK, LXC, LIBVIRT)]
    assert states(tmp_path, capsys) == dict.fromkeys(places, "missing")
    assert hooks("install", "--root", str(tmp_path)) == 0
    assert capsys.readouterr().out.split() == places
    assert all(os.access(f"{tmp_path}{place}", os.X_OK) for place in places)
    assert states(tmp_path, capsys) == dict.fromkeys(places, "installed")
    assert hooks("install", "--root", str(tmp_path)) == 0
    assert capsys.readouterr().err == "Everything is installed already.\n"
    assert states(tmp_path, capsys, "--seconds", "5") == {
        places[0]: "installed",
        places[1]: "other",
        places[2]: "other",
    }
    assert hooks("remove", "--root", str(tmp_path)) == 0
    assert sorted(capsys.readouterr().out.split()) == sorted(places)
    assert states(tmp_path, capsys) == dict.fromkeys(places, "missing")


def test_a_directory_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "usr").write_text("")
    assert hooks("install", "--root", str(tmp_path)) == 1
    assert "host-write-failed" in capsys.readouterr().err
