"""``cantle device set-mode`` and ``cantle device intent`` against a real server whose host follows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.following import Agent, following

from cantle.cli.exit_codes import ExitCode
from cantle.cli.main import run
from cantle.cli.set_mode import MODES
from cantle.model import intent

CARD = "0000:af:00.0"


class Shell:
    """Runs commands against the server and keeps what they print."""

    def __init__(self, agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
        self.agent = agent
        self._capsys = capsys

    def __call__(self, line: str, code: int = ExitCode.OK) -> tuple[str, str]:
        """Standard output and error of a command that ends with that code."""
        ended = run(line.split())
        out, err = self._capsys.readouterr()
        assert ended == code, (out, err)
        return out, err

    def card(self) -> dict[str, object]:
        """The card as the server has it."""
        return dict(json.loads(self(f"device show {CARD} -o json")[0]))


@pytest.fixture
def cantle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """Commands against a server with the host ``h1``."""
    with following(tmp_path) as (url, agent):
        monkeypatch.setenv("CANTLE_URL", url)
        yield Shell(agent, capsys)


def test_the_modes_of_the_command_are_those_that_can_be_wished_for() -> None:
    assert tuple(map(str, intent.MODES)) == MODES


def test_a_plan_numbers_the_steps_marks_what_hurts_and_changes_nothing(cantle: Shell) -> None:
    before = cantle.card()
    out, err = cantle(f"device set-mode {CARD} passthrough --plan")
    assert out.splitlines() == [
        "h1/0000:af:00.0: mdev -> passthrough",
        "  1. take 0000:af:00.0 from nvidia (disruptive: whatever uses it now loses it)",
        "warning: its audio goes with it",
        "Nothing was changed.",
    ]
    assert err == ""
    assert cantle.card() == before


def test_a_plan_for_what_is_so_already_has_no_steps(cantle: Shell) -> None:
    out, _ = cantle(f"device set-mode {CARD} mdev --type nvidia-222 --plan")
    assert out.splitlines()[:2] == [
        "h1/0000:af:00.0: mdev -> mdev with nvidia-222",
        "  no steps: it is in mode mdev already",
    ]


def test_a_plan_is_a_document_for_programs(cantle: Shell) -> None:
    plan = json.loads(cantle(f"device set-mode {CARD} passthrough --plan -o json")[0])
    assert (plan["steps"][0]["name"], plan["disruptive"], plan["code"]) == ("unbind-driver", True, None)
    assert cantle(f"device set-mode {CARD} passthrough --plan -c disruptive -o value")[0] == "true\n"


def test_a_plan_that_would_be_refused_fails_with_the_reason(cantle: Shell) -> None:
    cantle("profile create small --group resources:VGPU=1")
    cantle("lease create small --workload vm1")
    out, err = cantle(f"device set-mode {CARD} passthrough --plan", ExitCode.CONFLICT)
    assert "  1. take 0000:af:00.0 from nvidia" in out
    assert "in use by lease" in err
    assert "(vm1); release that first. [device-in-use]" in err


def test_without_plan_the_command_returns_when_the_host_has_followed(cantle: Shell) -> None:
    out, _ = cantle(f"device set-mode {CARD} passthrough -c mode -c intent_state -o value")
    assert out.split() == ["passthrough", "applied"]
    cantle("device set-mode af:00.0 mdev --host h1 --type nvidia-222")  # there is an intent by now; it was looked at
    assert cantle.card()["intent"] == {
        "mode": "mdev",
        "types": {CARD: "nvidia-222"},
        "hardware": "10de:1eb8",
        "version": 2,
        "etag": json.loads(cantle(f"device intent show {CARD} -o json")[0])["etag"],
    }


def test_a_host_that_cannot_follow_makes_the_command_fail_with_its_reason(cantle: Shell) -> None:
    cantle.agent.busy = "pid 7 (Xorg) holds it"
    _, err = cantle(f"device set-mode {CARD} passthrough", ExitCode.FAILED)
    assert "could not be changed to passthrough (intent 1): pid 7 (Xorg) holds it. Its host goes on trying." in err
    assert "[intent-failed]" in err
    assert cantle(f"device intent show {CARD} -c state -o value")[0] == "failed\n"
    shown = [line.split(maxsplit=1) for line in cantle(f"device show {CARD}")[0].splitlines()]
    assert ["intent", "passthrough (version 1)"] in shown
    assert ["mdev_types", "nvidia-222 (GRID T4-1B), nvidia-223 (GRID T4-2B)"] in shown


def test_waiting_for_a_host_that_does_not_answer_ends_and_says_for_what(cantle: Shell) -> None:
    cantle.agent.stop()
    _, err = cantle(f"device set-mode {CARD} passthrough --timeout 0.5", ExitCode.TIMED_OUT)
    assert "waiting for h1/0000:af:00.0 to become passthrough after 0.5 s; it goes on." in err
    assert "is being changed to passthrough (intent 1)." in err
    out, _ = cantle(f"device set-mode {CARD} mdev --no-wait -c intent_state -o value")
    assert out == "pending\n"


def test_an_intent_that_is_cleared_leaves_the_card_to_the_configuration(cantle: Shell) -> None:
    cantle(f"device set-mode {CARD} passthrough")
    cantle(f"device intent clear {CARD}")
    card = cantle.card()
    assert (card["mode"], card["intent"], card["intent_state"]) == ("mdev", None, "none")
    _, err = cantle(f"device intent clear {CARD}", ExitCode.NOT_FOUND)
    assert "[intent-not-found]" in err


def test_a_card_on_two_hosts_needs_its_host(cantle: Shell) -> None:
    cantle.agent.report(host="h2")
    _, err = cantle(f"device set-mode {CARD} passthrough --plan", ExitCode.CONFLICT)
    assert "say which, as one of h1/0000:af:00.0, h2/0000:af:00.0" in err
    assert cantle(f"device set-mode h2/{CARD} passthrough --plan")[0].startswith("h2/0000:af:00.0: mdev -> ")
    assert cantle(f"device set-mode {CARD} passthrough --plan --host h1")[0].startswith("h1/0000:af:00.0: mdev -> ")


def test_what_is_not_there_is_not_found(cantle: Shell) -> None:
    _, err = cantle("device set-mode 0000:01:00.0 mdev", ExitCode.NOT_FOUND)
    assert "[device-not-found]" in err
    _, err = cantle(f"device set-mode {CARD} mdev --host h9", ExitCode.NOT_FOUND)
    assert "[host-not-found]" in err
    _, err = cantle(f"device set-mode {CARD} toast", ExitCode.USAGE)
    assert "passthrough" in err
