"""The state directory: private, held by one process, and refused before anything is begun when it cannot be used."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cantle import errors
from cantle.cli import state_dir
from cantle.cli.state_dir import StateDir


def test_it_is_made_for_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        place = StateDir(tmp_path / "a" / "state")
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((place.path / "lock").stat().st_mode) == 0o600
    assert stat.S_IMODE(place.child("agents", "h").stat().st_mode) == 0o700
    place.close()


def test_a_second_process_is_refused_with_the_number_of_the_first(tmp_path: Path) -> None:
    first = StateDir(tmp_path)
    with pytest.raises(errors.Conflict) as caught:
        StateDir(tmp_path)
    assert caught.value.code == "state-dir-in-use"
    assert f"process {os.getpid()}" in caught.value.message
    first.close()


def test_the_next_may_have_it_when_the_first_is_gone_however_it_went(tmp_path: Path) -> None:
    script = textwrap.dedent(f"""
        import os, signal
        from pathlib import Path
        from cantle.cli.state_dir import StateDir
        StateDir(Path({str(tmp_path)!r}))
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode < 0
    StateDir(tmp_path).close()


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(errors.HostError) as caught:
        StateDir(tmp_path / "file" / "state")
    assert caught.value.code == "state-dir-unusable"
    assert "is no directory" in caught.value.message
    with pytest.raises(errors.HostError, match="is no directory"):
        StateDir(tmp_path / "file")


def test_a_place_that_cannot_even_be_looked_at_is_refused(tmp_path: Path) -> None:
    """A name too long stands for another user's home: the kernel refuses the same call, to root too."""
    with pytest.raises(errors.HostError, match="File name too long") as caught:
        StateDir(tmp_path / ("x" * 300))
    assert caught.value.code == "state-dir-unusable"


def test_a_place_that_cannot_be_written_is_refused() -> None:
    """Below /sys nobody makes directories, root neither."""
    with pytest.raises(errors.HostError) as caught:
        StateDir(Path("/sys/kernel/cantle-test"))
    assert caught.value.code == "state-dir-unusable"
    assert "/sys/kernel/cantle-test" in caught.value.message


def test_a_full_disk_is_noticed_before_anything_is_begun_and_nothing_is_left(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: the kernel refuses the same write."""
    script = textwrap.dedent(f"""
        import resource, signal
        from pathlib import Path
        from cantle.cli.state_dir import StateDir
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            StateDir(Path({str(tmp_path / "state")!r}))
        except Exception as error:
            print(error.code)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "state-dir-full"
    assert list(tmp_path.iterdir()) == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 4096


def test_nothing_but_the_lock_is_left_of_the_look_for_room(tmp_path: Path) -> None:
    place = StateDir(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    place.close()


def test_an_ordinary_user_has_it_below_the_xdg_state_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_dir.default() == tmp_path / "cantle"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # the specification says to ignore it then
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_dir.default() == tmp_path / ".local" / "state" / "cantle"


def test_root_has_it_where_services_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state_dir.default() == Path("/var/lib/cantle")
