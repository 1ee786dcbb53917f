"""Listening to libvirt, with tools of our own in place of virsh: it is started again when it ends, and ended when nobody listens."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from cantle.attach import domain_events
from cantle.attach.domain_events import DomainEvents
from cantle.errors import HostError
from cantle.kernel import tools
from cantle.kernel.root import Root
from cantle.kernel.tools import Talk

STARTED = "event 'lifecycle' for domain 'vm1': Started Booted"
REMOVED = "event 'device-removed' for domain 'vm1': hostdev0"
BALLOON = "event 'balloon-change' for domain 'vm1': 1048576KiB"


class Host(Root):
    """Its virsh is a shell that runs ``script``; ``begun`` counts how often."""

    def __init__(self, path: Path, script: str) -> None:
        super().__init__(path)
        (path / "run/libvirt").mkdir(parents=True)
        self.script = script
        self.begun = 0

    def talk(self, argv: Sequence[str]) -> Talk:
        assert argv[0] == "virsh"
        self.begun += 1
        return Talk(["sh", "-c", self.script])


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain_events, "_AGAIN", 0.01)


def take(events: DomainEvents, count: int) -> list[str]:
    with closing(iter(events)) as heard:
        return [next(heard) for _ in range(count)]


def test_what_changes_a_domain_is_heard_and_what_does_not_is_passed_over(tmp_path: Path) -> None:
    host = Host(tmp_path, f'printf "%s\\n" "{STARTED}" "{BALLOON}" "{REMOVED}"; exec sleep 600')
    events = DomainEvents(host, lambda: True, threading.Event())
    assert take(events, 3) == ["", STARTED, REMOVED]


def test_a_daemon_that_was_restarted_is_listened_to_again(tmp_path: Path) -> None:
    host = Host(tmp_path, f'echo "{STARTED}"')
    assert take(DomainEvents(host, lambda: True, threading.Event()), 4) == ["", STARTED, "", STARTED]
    assert host.begun == 2


def test_nobody_is_listened_to_where_nothing_is_lent_or_no_libvirt_is_there(tmp_path: Path) -> None:
    host = Host(tmp_path, "exit 0")
    ended = threading.Event()
    asked = []

    def wanted() -> bool:
        asked.append(True)
        if len(asked) == 3:
            ended.set()
        return len(asked) == 2

    (tmp_path / "run/libvirt").rmdir()
    assert list(DomainEvents(host, wanted, ended)) == []
    assert (host.begun, len(asked)) == (0, 3)


def test_the_end_comes_while_it_is_listened(tmp_path: Path) -> None:
    host = Host(tmp_path, f'echo "{STARTED}"; exec sleep 600')
    events = DomainEvents(host, lambda: True, threading.Event())
    heard = iter(events)
    assert [next(heard), next(heard)] == ["", STARTED]
    events.end()
    assert list(heard) == []


def test_a_host_without_virsh_is_looked_at_now_and_then_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "SEARCH", str(tmp_path))
    with pytest.raises(HostError, match="there is no virsh"):
        Talk(["virsh"])
    (tmp_path / "run/libvirt").mkdir(parents=True)
    ended = threading.Event()
    asked = []

    def wanted() -> bool:
        asked.append(True)
        if len(asked) == 2:
            ended.set()
        return True

    assert list(DomainEvents(Root(tmp_path), wanted, ended)) == []
    assert "they are looked at once a minute" in caplog.text
