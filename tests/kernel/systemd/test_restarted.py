"""Services that are reloaded, restarted and killed: clients notice a pause at most, and what is lent stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.kernel.systemd.cloud import AGENT, SERVERS, Cloud, handles

_CLIENT = Path(__file__).with_name("client.py")
_DAEMONS = (*SERVERS, AGENT)


@pytest.mark.parametrize("verb", ["reload", "restart"])
def test_no_request_fails_while_the_api_is_changed_for_a_new_one(cloud: Cloud, verb: str) -> None:
    """One of them waits for a lease that does not come, since its host's agent is not there: it is answered before its time."""
    computer = cloud.computer
    computer.run("systemctl", "stop", AGENT)
    status, lease = cloud.call("POST", "/v1/leases", {"profile": "serial"})
    assert status == 201
    before = computer.unit("cantle-api.service", "MainPID")
    waits = f"/v1/leases/{lease['uuid']}?wait=80"
    client = _CLIENT.read_text(encoding="utf-8")
    ran = json.loads(cloud.said("python3", "-c", client, verb, cloud.token, waits))
    assert ran["status"] == 0
    assert set(ran["answers"]) == {"200"}, ran
    assert ran["waited"] == ["200"]
    assert (computer.unit("cantle-api.service", "MainPID") == before) is (verb == "reload")
    computer.run("systemctl", "start", AGENT)
    cloud.give_back(lease)


def test_what_is_killed_is_started_again_and_what_is_lent_stays(cloud: Cloud) -> None:
    computer = cloud.computer
    lease = cloud.lend("serial")
    computer.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", *_DAEMONS)
    again = {"NRestarts": "1", "ActiveState": "active"}
    for unit in _DAEMONS:
        computer.until(
            lambda unit=unit: computer.unit(unit, "NRestarts", "ActiveState") == again,  # type: ignore[misc]
            f"{unit} runs again",
        )
    assert cloud.mdevs() == set(handles(lease))
    assert cloud.lease(lease)["state"] == "active"
    cloud.give_back(lease)
    assert cloud.mdevs() == set()


def test_the_journal_can_be_read_and_keeps_secrets(cloud: Cloud) -> None:
    """As configured: an object a line from the servers, and from all processes together no secret and no traceback."""
    computer = cloud.computer
    assert cloud.call("GET", "/v2/device_profiles")[0] == 200
    lines = [json.loads(line) for line in computer.journal(*SERVERS) if line.startswith("{")]
    assert any(line["message"].startswith("GET /v2/device_profiles 200 ") for line in lines)
    everything = computer.said("journalctl", "--no-pager", "-o", "cat")
    assert [secret for secret in cloud.secrets if secret in everything] == []
    assert "Traceback" not in "\n".join(computer.journal(*_DAEMONS))


def test_a_reload_with_a_wrong_configuration_fails_and_says_why_and_the_workers_of_before_go_on(cloud: Cloud) -> None:
    """It ended the service: gunicorn gives up when a new worker does not start."""
    computer = cloud.computer
    wrong = "/etc/cantle/cantle.conf.d/wrong.conf"
    before = computer.unit("cantle-api.service", "MainPID", "ActiveState")
    computer.run("tee", wrong, stdin="[api]\nauth = sesame\n")
    assert computer.run("systemctl", "reload", "cantle-api.service", check=False).status != 0
    assert any("sesame" in line for line in computer.journal("cantle-api.service"))
    assert computer.unit("cantle-api.service", "MainPID", "ActiveState") == before
    assert cloud.call("GET", "/readyz")[0] == 200
    computer.run("rm", wrong)
    computer.run("systemctl", "reload", "cantle-api.service")


def test_a_wrong_configuration_is_said_in_the_journal_and_what_gunicorn_runs_comes_back_once_it_is_right(
    cloud: Cloud,
) -> None:
    computer = cloud.computer
    wrong = "/etc/cantle/cantle.conf.d/wrong.conf"
    computer.run("tee", wrong, stdin="[api]\nauth = sesame\n")
    computer.run("systemctl", "restart", "cantle-keeper.service", "cantle-api.service", check=False)
    for unit in ("cantle-keeper.service", "cantle-api.service"):
        computer.until(lambda unit=unit: "sesame" in "".join(computer.journal(unit)), f"{unit} says what is wrong")  # type: ignore[misc]
    keeper = computer.unit("cantle-keeper.service", "ActiveState", "ExecMainStatus")
    assert keeper == {"ActiveState": "failed", "ExecMainStatus": "78"}
    computer.run("rm", wrong)
    computer.run("systemctl", "start", "cantle-keeper.service")
    computer.until(lambda: cloud.call("GET", "/readyz")[0] == 200, "the API answers again")
