"""A server of this version still serves the agents of every protocol it says it does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.databases import database
from tests.unit.agent.conversation import RECORDED, Replay, record

from cantle.engine import fence
from cantle.engine.capacity import list_capacity
from cantle.engine.profile import create_profile
from cantle.model.identity import LOCAL_ADMIN
from cantle.store.database import Database
from cantle.wire.inventory import InventoryReport
from cantle.wire.protocol import OLDEST, PROTOCOL
from cantle.wire.work import Results, Work

KINDS = {"inventory": InventoryReport, "results": Results}


def file_of(protocol: int) -> Path:
    """Where the conversation of a protocol is."""
    return RECORDED / f"protocol-{protocol}.json"


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    """An empty database."""
    with database("sqlite", tmp_path) as opened:
        yield opened
        opened.wakeups.stop()


def test_every_protocol_is_recorded(sqlite: Database, tmp_path: Path) -> None:
    """``CANTLE_GOLDEN=write`` records the newest one, if there is no record of it yet."""
    if os.environ.get("CANTLE_GOLDEN") == "write" and not file_of(PROTOCOL).exists():
        file_of(PROTOCOL).write_text(json.dumps(record(sqlite, tmp_path), indent=1) + "\n")
    assert [protocol for protocol in range(OLDEST, PROTOCOL + 1) if not file_of(protocol).exists()] == []


@pytest.mark.parametrize("protocol", range(OLDEST, PROTOCOL + 1))
def test_a_recorded_agent_is_served_as_it_was(sqlite: Database, protocol: int) -> None:
    """Every call that an agent made when the protocol was new is answered with at least what it was answered then."""
    for name, group in (("slice", "VGPU"), ("card", "PGPU")):
        create_profile(sqlite, LOCAL_ADMIN, name=name, groups=[{f"resources:{group}": "1"}])
    steps = json.loads(file_of(protocol).read_text())
    replay = Replay(sqlite)
    for step in steps:
        replay.step(step)
    said = {step["method"] for step in steps if "method" in step}
    assert said == {"PUT", "GET", "POST"}
    assert [one.free == one.total for one in list_capacity(sqlite)] == [True, True]


@pytest.fixture
def upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    """This server is of the next version: it speaks one protocol more than its agents, and theirs too."""
    monkeypatch.setattr(fence, "PROTOCOL", PROTOCOL + 1)


@pytest.mark.usefixtures("upgraded")
def test_a_server_of_the_next_version_serves_the_recorded_agent_of_today(sqlite: Database) -> None:
    test_a_recorded_agent_is_served_as_it_was(sqlite, PROTOCOL)


@pytest.mark.usefixtures("upgraded")
def test_an_agent_of_today_lends_and_takes_back_under_a_server_of_the_next_version(
    sqlite: Database, tmp_path: Path
) -> None:
    """No recording: the agent itself, over HTTP."""
    steps = [step for step in record(sqlite, tmp_path) if "method" in step]
    assert {step["body"]["protocol"] for step in steps if step["body"] is not None} == {PROTOCOL}
    assert [step for step in steps if step["status"] >= 400] == []


@pytest.mark.parametrize(
    ("oldest", "newest", "spoken", "mend"),
    [
        (PROTOCOL + 1, PROTOCOL + 1, PROTOCOL, "upgrade the agent"),
        (PROTOCOL, PROTOCOL + 1, PROTOCOL + 2, "upgrade the server first"),
    ],
)
@pytest.mark.parametrize("call", ["inventory", "results"])
def test_an_agent_outside_of_a_servers_two_numbers_is_told_which_of_the_two_to_upgrade(
    sqlite: Database,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    oldest: int,
    newest: int,
    spoken: int,
    mend: str,
) -> None:
    for name, group in (("slice", "VGPU"), ("card", "PGPU")):
        create_profile(sqlite, LOCAL_ADMIN, name=name, groups=[{f"resources:{group}": "1"}])
    replay = Replay(sqlite)
    for step in json.loads(file_of(PROTOCOL).read_text()):
        if step.get("path", "").endswith(call):
            break
        replay.step(step)
    monkeypatch.setattr(fence, "OLDEST", oldest)
    monkeypatch.setattr(fence, "PROTOCOL", newest)
    answer = replay.say({**step, "body": {**step["body"], "protocol": spoken}})
    assert (answer.status_code, answer.json["code"]) == (409, "protocol-mismatch")
    assert answer.json["detail"].endswith(f"this server {oldest} to {newest}: {mend}.")


@pytest.mark.parametrize("protocol", range(OLDEST, PROTOCOL + 1))
def test_a_recorded_servers_words_are_understood_by_the_agent_of_today(protocol: int) -> None:
    """And what a later server adds is left out of account."""
    for step in json.loads(file_of(protocol).read_text()):
        if step.get("method") == "GET":
            work = {**step["answer"], "added_later": {"a": [1]}}
            assert msgspec.json.decode(json.dumps(work), type=Work).generation == step["answer"]["generation"]
        elif "method" in step:
            kind = KINDS[step["path"].rpartition("/")[2]]
            assert msgspec.json.decode(json.dumps({**step["body"], "added_later": 1}), type=kind).protocol == protocol
