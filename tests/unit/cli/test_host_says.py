"""Whatever befalls a host or its agent, ``cantle host show`` says it in a sentence, and ``cantle host list`` in one word."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from tests.databases import database
from tests.unit.engine.cloud import ADMIN
from tests.unit.engine.machine import Machine, copy_of, machine, restored, silence

from cantle.agent import conditions
from cantle.api.app import public_app
from cantle.api.settings import Settings
from cantle.cli.listen import Address, HttpServer
from cantle.cli.main import run
from cantle.engine.host import drain
from cantle.store.database import Database
from cantle.wire.inventory import Condition


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A database behind a server that the command finds."""
    with database("sqlite", tmp_path) as opened:
        server = HttpServer(Address("127.0.0.1", 0), threads=2, name="test")
        thread = threading.Thread(target=server.serve, args=(public_app(opened, Settings()),), daemon=True)
        thread.start()
        monkeypatch.setenv("CANTLE_URL", server.url)
        yield opened
        server.stop()
        thread.join(20)


def said(*words: str) -> str:
    """What a command prints, its lines joined."""
    out = io.StringIO()
    with redirect_stdout(out):
        assert run(list(words)) == 0
    return " ".join(out.getvalue().split())


def wrong_clock(db: Database) -> None:
    """Its clock is an hour ahead."""
    machine(db, clock=time.time() + 3600)


def full_disk(db: Database) -> None:
    """The agent's own word."""
    machine(db, conditions=(Condition(conditions.UNWRITABLE, "cannot write /x: No space left on device"),))


def away_server(db: Database) -> None:
    """The agent's own word, once it is back."""
    machine(db, conditions=(Condition(conditions.AWAY, "the server did not answer for 61 minutes"),))


def left_units(db: Database) -> None:
    """The agent's own word."""
    machine(db, conditions=(Condition(conditions.LEFT, "no lease has these any more; pid 4711"),))


def second_agent(db: Database) -> None:
    """The first one speaks again after a second one did."""
    first = machine(db)
    second = Machine(db, first.name, first.devices)
    second.report()
    assert first.refused() == "agent-fenced"


def cloned_machine(db: Database) -> None:
    """The machine speaks again after its copy did."""
    first = machine(db)
    copy_of(first).report()
    assert first.refused() == "machine-cloned"


def another_machine(db: Database) -> None:
    """One with another id."""
    first = machine(db)
    other = Machine(db, first.name, first.devices)
    other.machine = "m2"
    assert other.refused() == "host-is-another-machine"


def backup(db: Database) -> None:
    """The host has followed what the server has forgotten."""
    restored(db).report()


def dead_agent(db: Database) -> None:
    """Nothing was heard for long."""
    machine(db)
    silence(db)


def maintenance(db: Database) -> None:
    """A person wants it so."""
    machine(db)
    drain(db, ADMIN, "compute-1")


@pytest.mark.parametrize(
    ("befalls", "state", "sentence", "code"),
    [
        (wrong_clock, "up", "Its clock is 3600 s ahead of the database's.", "clock-wrong"),
        (full_disk, "up", "No space left on device", "agent-state-unwritable"),
        (away_server, "up", "the server did not answer for 61 minutes", "server-was-away"),
        (left_units, "up", "no lease has these any more; pid 4711", "units-left-behind"),
        (second_agent, "up", "Another agent of compute-1 has reported since", "agent-fenced"),
        (cloned_machine, "frozen", "Stop the copy and give it an id of its own", "machine-cloned"),
        (another_machine, "up", "compute-1 is another machine", "host-is-another-machine"),
        (backup, "frozen", "the database was restored from a backup", "host-frozen"),
        (dead_agent, "down", "down", ""),
        (maintenance, "drained", "drained", ""),
    ],
)
def test_it_is_said_in_the_hosts_status(
    db: Database, befalls: Callable[[Database], None], state: str, sentence: str, code: str
) -> None:
    befalls(db)
    shown = said("host", "show", "compute-1")
    assert sentence in shown
    assert f"[{code}]" in shown or not code
    assert said("host", "list", "-c", "state", "-o", "value") == state
