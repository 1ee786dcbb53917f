"""What a person is told of leases that failed, that have troubles, and that do not come back."""

from __future__ import annotations

import json
from collections.abc import Mapping

from click.testing import CliRunner
from tests.unit.cli.answering import Answer, Request, answering

from cantle.cli.main import cantle
from cantle.cli.who import WIDE

HELD, FAILED = {"state": "Bound", "attach_handle_uuid": "u1"}, {"state": "BindFailed", "attach_handle_uuid": None}


def told(*arqs: Mapping[str, object], reason: str = "it is held.") -> str:
    units = [{"uuid": "a1", **arq} for arq in arqs]
    lease = {"uuid": "l1", "state": "failed", "hostname": "gpu1", "reason": reason, "arqs": units}

    def answer(request: Request) -> Answer:
        return Answer(201 if request.method == "POST" else 200, json.dumps(lease).encode())

    with answering(answer) as url:
        done = CliRunner().invoke(cantle, ["--url", url, "lease", "create", "gold", "--wait", "-o", "json"])
    return str(done.exception)


def test_a_failed_lease_of_which_a_part_became_ready_is_to_be_given_back() -> None:
    assert told(HELD, FAILED) == (
        "Lease l1 is failed on gpu1: it is held. Give back what it holds: cantle lease release l1"
    )


def test_a_failed_lease_that_holds_nothing_is_not_to_be_given_back() -> None:
    assert told(FAILED) == (
        "Lease l1 is failed on gpu1: it is held. It holds nothing; to take it off the list: cantle lease release l1"
    )


def test_a_reason_that_asks_something_ends_with_its_question_mark_alone() -> None:
    """It said "is the module vfio loaded?. It holds nothing"."""
    assert "is it loaded? It holds nothing; to" in told(FAILED, reason="is it loaded?")


def test_a_list_has_the_reasons_where_there_are_any() -> None:
    """Nine leases were "active" in the list while none of their units could be made."""
    lease = {"uuid": "l1", "state": "active", "profile_name": "gold", "hostname": "gpu1", "workload": "vm1", "arqs": []}
    assert "REASON" not in listed({**lease, "reason": None})
    assert "its card is missing" in listed({**lease, "reason": None}, {**lease, "reason": "its card is missing"})


def listed(*leases: Mapping[str, object]) -> str:
    body = json.dumps({"leases": leases}).encode()
    with answering(lambda _: Answer(200, body)) as url:
        return CliRunner().invoke(cantle, ["--url", url, "lease", "list"]).output


def test_who_names_the_program_that_keeps_a_card_and_takes_a_host_with_an_address() -> None:
    """The page on leases said so, and the table had "releasing" alone."""
    held = {
        **dict.fromkeys(WIDE),
        "hostname": "gpu1",
        "device": "0000:3b:00.0",
        "state": "releasing",
        "reason": "pid 42 has it",
    }
    asked = []

    def answer(request: Request) -> Answer:
        asked.append(request.path)
        return Answer(200, json.dumps({"now": [held, {**held, "hostname": "gpu2"}], "past": []}).encode())

    with answering(answer) as url:
        told = CliRunner().invoke(cantle, ["--url", url, "who", "gpu1/0000:3b:00.0"]).output
    assert "pid 42 has it" in told
    assert "gpu2" not in told
    assert asked == ["/v1/who/0000%3A3b%3A00.0"]
