"""The harness when the guest does not do as it should: no test counts as run, and what went wrong can be read."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.kernel.lab.boots import Boot
from tests.kernel.lab.guest import Guest, GuestFailed
from tests.kernel.lab.harness import Harness
from tests.kernel.lab.lines import Lines, Silence
from tests.kernel.lab.qemu import escaped

BROKEN = "tests/kernel/broken"


@pytest.fixture
def harness(request: pytest.FixtureRequest) -> Harness:
    plugin = request.config.pluginmanager.get_plugin("lab-harness")
    assert isinstance(plugin, Harness)
    return plugin


def test_a_guest_that_crashes_is_reported_with_the_end_of_its_console(
    harness: Harness, request: pytest.FixtureRequest
) -> None:
    checkout = request.config.rootpath
    guest = Guest(harness.lab(checkout), Boot("crash", "a kernel that panics"), checkout, [f"{BROKEN}/panics.py"])
    try:
        with pytest.raises(GuestFailed) as caught:
            list(guest.messages())
    finally:
        guest.kill()
    assert "the other end is gone" in str(caught.value)
    assert "Kernel panic - not syncing: sysrq triggered crash" in str(caught.value)


def test_a_module_that_cannot_be_imported_in_the_guest_is_named(
    harness: Harness, request: pytest.FixtureRequest
) -> None:
    checkout = request.config.rootpath
    guest = Guest(
        harness.lab(checkout), Boot("import", "a module that fails"), checkout, [f"{BROKEN}/cannot_import.py"]
    )
    try:
        messages = list(guest.messages())
    finally:
        guest.kill()
    assert [message["collect"] for message in messages] == [f"{BROKEN}/cannot_import.py"]
    assert "no_such_module" in messages[0]["why"]


def test_silence_and_an_end_are_told_apart() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        lines = Lines(ours.fileno())
        with theirs:
            theirs.send(b'{"half": ')
            with pytest.raises(Silence):
                lines.receive(0.01)
            theirs.send(b'"done"}\n{"next": 1}\n')
            assert [lines.receive(1), lines.receive(1)] == [{"half": "done"}, {"next": 1}]
        with pytest.raises(EOFError):
            lines.receive(1)


def test_the_paths_of_a_checkout_may_hold_a_comma(tmp_path: Path) -> None:
    assert escaped(tmp_path / "a,b") == f"{tmp_path}/a,,b"
