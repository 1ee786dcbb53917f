"""What a person is told of a lease that failed."""

from __future__ import annotations

import json
from collections.abc import Mapping

from click.testing import CliRunner
from tests.unit.cli.answering import Answer, Request, answering

from cantle.cli.main import cantle

HELD, FAILED = {"state": "Bound", "attach_handle_uuid": "u1"}, {"state": "BindFailed", "attach_handle_uuid": None}


def told(*arqs: Mapping[str, object]) -> str:
    units = [{"uuid": "a1", **arq} for arq in arqs]
    lease = {"uuid": "l1", "state": "failed", "hostname": "gpu1", "reason": "it is held.", "arqs": units}

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


def test_a_list_has_the_reasons_where_there_are_any() -> None:
    """Nine leases were "active" in the list while none of their units could be made."""
    lease = {"uuid": "l1", "state": "active", "profile_name": "gold", "hostname": "gpu1", "workload": "vm1", "arqs": []}
    assert "REASON" not in listed({**lease, "reason": None})
    assert "its card is missing" in listed({**lease, "reason": None}, {**lease, "reason": "its card is missing"})


def listed(*leases: Mapping[str, object]) -> str:
    body = json.dumps({"leases": leases}).encode()
    with answering(lambda _: Answer(200, body)) as url:
        return CliRunner().invoke(cantle, ["--url", url, "lease", "list"]).output
