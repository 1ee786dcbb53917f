"""The agent's memory on disk: whole or not at all, and never a reason to give up."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.agent.desired import Desired, DesiredFile
from cantle.errors import Conflict, HostError
from cantle.kernel.vfio import Original
from cantle.model.attach_handle import AttachType
from cantle.wire.work import WantedHandle, Work

UNIT = WantedHandle(
    "11111111-2222-4333-8444-555555555555", "0000:af:00.0", AttachType.MDEV, {"asked_type": "nvidia-223"}
)
MEMORY = Desired(Work(7, (UNIT,)), {"0000:86:00.0": (Original("0000:86:00.0", "10de:17fd", "nvidia"),)})


def test_what_was_saved_is_loaded_and_nothing_before(tmp_path: Path) -> None:
    file = DesiredFile(tmp_path / "agent")
    with file.held():
        assert file.load() == Desired()
        file.save(MEMORY)
        assert DesiredFile(tmp_path / "agent").load() == MEMORY


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    file = DesiredFile(tmp_path / "agent")
    with file.held():
        file.save(MEMORY)
    assert (tmp_path / "agent").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "agent" / "desired.json").stat().st_mode & 0o777 == 0o600


@given(
    st.binary(max_size=300) | st.just(b'{"version": 2}') | st.just(b'{"work": {"generation": "x"}}') | st.just(b"[]")
)
def test_a_file_that_cannot_be_understood_is_set_aside(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    directory = tmp_path_factory.mktemp("agent")
    (directory / "desired.json").write_bytes(data)
    assert DesiredFile(directory).load() == Desired()
    assert (directory / "desired.unusable").read_bytes() == data
    assert not (directory / "desired.json").exists()


def test_that_is_told_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "desired.json").write_text('{"version": 9}')
    with caplog.at_level(logging.ERROR):
        DesiredFile(tmp_path).load()
    assert "it has version 9, this agent knows 1" in caplog.text


@given(st.integers(0, 400))
def test_a_file_cut_anywhere_is_loaded_or_set_aside(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    directory = tmp_path_factory.mktemp("agent")
    file = DesiredFile(directory)
    file.save(MEMORY)
    data = (directory / "desired.json").read_bytes()
    (directory / "desired.json").write_bytes(data[:length])
    assert file.load() == (MEMORY if length >= len(data) else Desired())


def test_a_save_that_fails_keeps_what_was_there(tmp_path: Path) -> None:
    file = DesiredFile(tmp_path)
    file.save(MEMORY)
    (tmp_path / "desired.new").mkdir()
    with pytest.raises(HostError) as caught:
        file.save(Desired())
    assert caught.value.code == "agent-state-unwritable"
    assert file.load() == MEMORY


def test_a_leftover_of_a_save_that_was_killed_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "desired.new").write_text('{"work":')
    file = DesiredFile(tmp_path)
    assert file.load() == Desired()
    file.save(MEMORY)
    assert file.load() == MEMORY
    assert sorted(os.listdir(tmp_path)) == ["desired.json"]


def test_a_directory_is_held_by_one(tmp_path: Path) -> None:
    with DesiredFile(tmp_path).held():
        with pytest.raises(Conflict) as caught, DesiredFile(tmp_path).held():
            raise AssertionError("two held it")
        assert caught.value.code == "agent-already-running"
    with DesiredFile(tmp_path).held():
        pass


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError) as caught, DesiredFile(tmp_path / "file" / "agent").held():
        raise AssertionError("held what is not there")
    assert caught.value.code == "agent-state-unwritable"


def test_a_file_that_may_not_be_read_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "desired.json").mkdir()
    with pytest.raises(HostError) as caught:
        DesiredFile(tmp_path).load()
    assert caught.value.code == "agent-state-unreadable"
