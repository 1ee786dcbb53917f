"""What all commands that list something have in common."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import pytest
from tests.unit.cli.answering import Answer, Request, answering
from tests.unit.cli.commands import every_command

from cantle.cli.exit_codes import ExitCode
from cantle.cli.main import run

#: Commands by the collection they list, all of which the server gives page by page.
LISTS = {
    "arq list": "arqs",
    "audit list": "records",
    "capacity": "capacity",
    "deployable list": "deployables",
    "device list": "devices",
    "events": "events",
    "flavor list": "flavors",
    "host list": "hosts",
    "lease list": "leases",
    "profile list": "profiles",
    "quota show": "quotas",
    "token list": "tokens",
}
#: These the server gives whole.
WHOLE = {"pool list"}


@pytest.mark.parametrize("command", LISTS)
def test_a_list_has_what_is_on_later_pages_too(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`cantle token list` showed a thousand tokens and no word of the others."""
    name = LISTS[command]

    def answer(request: Request) -> Answer:
        following = "marker=" in request.path
        links = [{"href": f"http://there{urlsplit(request.path).path}?marker=first", "rel": "next"}]
        row: dict[str, object] = {
            "project_id": "second" if following else "first",
            "free": 1,
            "conditions": [],
            "arqs": [],
        }
        return Answer(200, json.dumps({name: [row], f"{name}_links": [] if following else links}).encode())

    with answering(answer) as url:
        monkeypatch.setenv("CANTLE_URL", url)
        assert run([*command.split(), "-c", "project_id", "-o", "value"]) == ExitCode.OK
    assert capsys.readouterr().out == "first\nsecond\n"


def test_no_list_is_left_out_above() -> None:
    lists = {path for path, _ in every_command() if path.endswith(" list")}
    assert lists <= LISTS.keys() | WHOLE


@pytest.mark.parametrize(
    ("command", "empty", "unmatched"),
    [
        ("device list", "no host has reported one yet", "--health failed"),
        ("deployable list", "no host offers anything yet", "--class VGPU"),
        ("capacity", "'cantle device list' says why", "--host nowhere"),
        ("events", "[nova] or [webhook]", "--type lease.failed"),
        ("lease list", "No leases.", "--workload vm1"),
        ("arq list", "No accelerator requests.", "--state BindFailed"),
        ("audit list", "No records.", "--action unit.lost"),
    ],
)
def test_a_list_that_nothing_matches_is_not_told_as_if_there_were_nothing_at_all(
    command: str, empty: str, unmatched: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`cantle device list --health failed` said that no host had reported a card yet."""
    with answering(lambda _: Answer(200, json.dumps({LISTS[command]: []}).encode())) as url:
        monkeypatch.setenv("CANTLE_URL", url)
        assert run(command.split()) == ExitCode.OK
        assert empty in capsys.readouterr().err
        assert run([*command.split(), *unmatched.split()]) == ExitCode.OK
        assert capsys.readouterr().err.endswith(" match that.\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--states --profiles", "leave one out"),
        ("--states --free", "leave one out"),
        ("--profiles --free", "leave one out"),
        ("--profiles --class VGPU", "--class"),
        ("--per-host", "belongs to --profiles"),
    ],
)
def test_options_of_different_lists_are_refused_not_passed_over(
    options: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["capacity", *options.split()]) == ExitCode.USAGE
    assert said in capsys.readouterr().err
