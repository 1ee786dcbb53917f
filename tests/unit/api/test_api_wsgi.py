"""The entry points that WSGI servers load, each in an interpreter of its own, as they do."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import falcon.testing
import msgspec
import pytest
from tests.stories.hosts import report, t4

from cantle import wsgi
from cantle.api.logs import configure
from cantle.engine.intake import accept_report
from cantle.store.database import Database
from cantle.store.migrate import upgrade
from cantle.wire.inventory import InventoryReport

ASK = """
import json, sys
import falcon.testing
import cantle.wsgi
assert not cantle.wsgi.application._app, "made before it was asked for"
app = getattr(cantle.wsgi, sys.argv[1])
answers = []
for path in sys.argv[2:]:
    answer = falcon.testing.simulate_get(app, path, remote_addr="127.0.0.1", headers={"Host": "127.0.0.1"})
    answers.append([answer.status_code, answer.headers.get("x-cantle-error-code"), answer.headers.get("x-openstack-request-id", "")[:4]])
print(json.dumps(answers))
"""


def ask(config: Path, entry: str, *paths: str) -> tuple[list[Any], str]:
    """Status, code and the start of the request id for each path; and what was logged."""
    env = {**os.environ, "CANTLE_CONFIG": str(config)}
    command = [sys.executable, "-c", ASK, entry, *paths]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration file with a migrated database."""
    url = f"sqlite:///{tmp_path}/cantle.db"
    upgrade(url)
    file = tmp_path / "cantle.conf"
    file.write_text(f"[database]\nconnection = {url}\n")
    return file


def test_clients_are_answered_as_configured(config: Path) -> None:
    answers, log = ask(config, "application", "/readyz", "/v2/devices", "/v1/hosts/h1/work")
    assert answers == [[200, None, "req-"], [200, None, "req-"], [404, "no-such-path", "req-"]]
    assert "Authentication is off" in log
    assert "GET /v2/devices 200" in log


def test_agents_are_answered_as_configured(config: Path) -> None:
    assert ask(config, "agents", "/readyz", "/v1/hosts/h1/work")[0] == [
        [200, None, "req-"],
        [404, "host-not-found", "req-"],
    ]
    config.write_text(config.read_text() + "[agents]\ntoken = s3cret\n")
    assert ask(config, "agents", "/v1/hosts/h1/work")[0] == [[401, "agent-token-missing", "req-"]]


def test_one_secret_for_every_host_is_warned_of_and_not_written_to_the_log(config: Path) -> None:
    _, log = ask(config, "agents", "/readyz")
    assert "any host" not in log
    config.write_text(config.read_text() + "[agents]\ntoken = s3cret\n")
    _, log = ask(config, "agents", "/readyz")
    assert "[agents] token is set: whoever has it may speak for any host" in log
    assert "s3cret" not in log


def test_a_directory_of_files_overrides_the_file(config: Path) -> None:
    directory = config.parent / "cantle.conf.d"
    directory.mkdir()
    (directory / "10-json.conf").write_text("[DEFAULT]\nuse_json = true\n")
    (directory / "20-text.conf").write_text("[api]\nmax_page = 7\n")
    _, log = ask(Path(f"{config}:{directory}"), "application", "/v2/devices")
    lines = [json.loads(line) for line in log.splitlines()]
    (access,) = [line for line in lines if line["logger"] == "cantle.api.access"]
    assert (access["method"], access["path"], access["status"]) == ("GET", "/v2/devices", 200)
    assert access["request_id"].startswith("req-")
    assert access["duration_ms"] >= 0
    assert (access["user_id"], access["project_id"]) == ("local", "00000000-0000-0000-0000-000000000000")


def test_a_database_that_is_not_migrated_is_not_ready_but_the_process_is_up(tmp_path: Path) -> None:
    file = tmp_path / "cantle.conf"
    file.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/empty.db\n")
    answers, _ = ask(file, "application", "/healthz", "/readyz", "/v2/devices")
    assert [status for status, _, _ in answers] == [200, 503, 503]
    assert answers[2][1].startswith("database-")


@pytest.fixture
def logs_restored() -> Iterator[None]:
    """Making an application turns the logs of its process to standard error."""
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])


@pytest.mark.usefixtures("logs_restored")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "database-not-configured"),
        ("[api]\nauth = magic\n", "bad-option"),
        ("[api]\nauth = keystone\n[database]\nconnection = sqlite:///x.db\n", "keystone-not-configured"),
        ("[database]\nconnection = oracle://x\n", "bad-database-url"),
        ("this is no ini file\n", "config-file-malformed"),
        (None, "config-file-missing"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_503_and_the_log_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: str | None, why: str
) -> None:
    file = tmp_path / "cantle.conf"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("CANTLE_CONFIG", str(file))
    configure(as_json=False)
    answer = falcon.testing.simulate_get(wsgi.Lazy(wsgi.make_public), "/v2/devices")
    assert (answer.status_code, answer.headers["x-cantle-error-code"]) == (503, "not-started")
    assert answer.headers["x-openstack-request-id"].startswith("req-")
    log = capsys.readouterr().err
    assert why in log
    assert "Traceback" not in log


@pytest.mark.usefixtures("logs_restored")
def test_a_servers_worker_ends_with_one_line_that_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cantle.conf"
    file.write_text("[api]\nauth = magic\n")
    monkeypatch.setenv("CANTLE_CONFIG", str(file))
    configure(as_json=False)
    with pytest.raises(SystemExit) as exit_:
        wsgi.Lazy(wsgi.make_public).load_or_exit()
    assert exit_.value.code == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        f"[api] auth in {file} is not acceptable: Valid values are [none, keystone, token], but found 'magic'." in line
    )


@pytest.mark.usefixtures("logs_restored")
def test_a_slip_of_the_pen_anywhere_in_the_configuration_is_in_the_log(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(config.read_text() + "[keeper]\nevents_days = 3\n")
    monkeypatch.setenv("CANTLE_CONFIG", str(config))
    wsgi.Lazy(wsgi.make_public).load()
    assert "[keeper] events_days is no option of Cantle and has no effect; did you mean" in capsys.readouterr().err


@pytest.mark.usefixtures("logs_restored")
def test_a_configuration_that_was_mended_is_taken_at_the_next_request(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANTLE_CONFIG", str(config))
    good = config.read_text()
    config.write_text("[api]\nauth = magic\n")
    app = wsgi.Lazy(wsgi.make_public)
    assert falcon.testing.simulate_get(app, "/healthz", remote_addr="127.0.0.1").status_code == 503
    config.write_text(good)
    local = {"Host": "127.0.0.1"}
    assert falcon.testing.simulate_get(app, "/healthz", remote_addr="127.0.0.1", headers=local).status_code == 200
    assert app.load() is app.load()


def test_without_keystone_nothing_of_it_is_loaded(config: Path) -> None:
    """Nor an HTTP client, nor Alembic: each costs start-up time and memory."""
    code = (
        ASK
        + "print([name for name in ('keystonemiddleware', 'webob', 'requests', 'alembic') if name in sys.modules], file=sys.stderr)"
    )
    env = {**os.environ, "CANTLE_CONFIG": str(config)}
    command = [sys.executable, "-c", code, "application", "/v2/devices"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_the_policy_file_lies_beside_the_configuration(config: Path) -> None:
    (config.parent / "policy.yaml").write_text('"cyborg:device:get_all": "!"\n')
    answers, _ = ask(config, "application", "/v2/devices", "/v2/deployables")
    assert answers == [[403, "policy-denied", "req-"], [200, None, "req-"]]


GUNICORN = """
import os, signal, threading, time
import falcon.testing
from cantle import wsgi

wsgi.agents.load()
order = []
signal.signal(signal.SIGTERM, lambda *_: order.append("server"))
wsgi.agents.end_waits(signal.SIGTERM)
path, query = "/v1/hosts/h1/work", "generation=1&wait=80"
environ = falcon.testing.create_environ(path, query, host="127.0.0.1", remote_addr="127.0.0.1")
done = threading.Event()

def wait():
    print(*wsgi.agents(environ, lambda status, headers: order.append(status)))
    done.set()

threading.Thread(target=wait).start()
while not done.is_set() and not any(wsgi.agents._database.wakeups._waiters.values()):
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGTERM)
print(done.wait(40), sorted(order))
"""


def test_a_server_that_is_told_to_end_answers_its_waiting_agents_at_once(config: Path) -> None:
    """`systemctl restart` of the agents' listener took a minute and a half, and nobody was answered meanwhile."""
    db = Database.open(f"sqlite:///{config.parent / 'cantle.db'}")
    accept_report(db, "h1", msgspec.convert(report(t4()), InventoryReport))
    db.close()
    env = {**os.environ, "CANTLE_CONFIG": str(config)}
    done = subprocess.run(
        [sys.executable, "-c", GUNICORN], env=env, capture_output=True, text=True, check=True, timeout=60
    )
    answer, ended = done.stdout.splitlines()
    assert '"server-stopping"' in answer
    assert ended == "True ['503 Service Unavailable', 'server']"
