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
