"""The programs beside ``cantle``: cantle-keeper, cantle-manage, cantle-status. Each is run as a process."""

from __future__ import annotations

import base64
import json
import selectors
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.databases import sqlite_url
from tests.postgres import Postgres
from tests.unit.api.keystone_stand_in import KeystoneStandIn
from tests.unit.api.served import http_server
from tests.unit.cli.serving import PATIENCE, Done, clean, serving
from tests.unit.engine.cloud import NOVA_FOR_ALICE, Host, bound, make_profile, t4
from tests.unit.keeper.conftest import told, until
from tests.unit.keeper.listener import HANG, listening

from cantle import wsgi
from cantle.cli.exit_codes import ExitCode
from cantle.conf import files
from cantle.engine.arq import delete_arqs
from cantle.model.arq import ArqState
from cantle.model.event import Outlets
from cantle.store import migrate
from cantle.store.database import Database
from cantle.store.revision import HEAD

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def config(place: Path, text: str = "") -> Path:
    """A configuration file for the database in ``place``."""
    file = place / "cantle.conf"
    file.write_text(f"[database]\nconnection = sqlite:///{place / 'cantle.db'}\n{text}")
    return file


def run(program: str, place: Path, *arguments: str, text: str = "") -> Done:
    """Run one of them to its end."""
    command = [sys.executable, "-m", f"cantle.cli.{program}", "--config-file", str(config(place, text)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=clean({}))
    return Done(done.returncode, done.stdout, done.stderr)


def test_a_database_is_made_and_made_again_without_harm(tmp_path: Path) -> None:
    assert run("manage", tmp_path, "db", "version") == Done(0, f"schema empty, needed {HEAD}\n", "")
    assert run("manage", tmp_path, "db", "sync") == Done(0, f"schema {HEAD} (was empty)\n", "")
    assert run("manage", tmp_path, "db", "sync") == Done(0, f"schema {HEAD} (nothing to do)\n", "")
    assert run("manage", tmp_path, "db", "version") == Done(0, f"schema {HEAD}, needed {HEAD}\n", "")
    assert run("manage", tmp_path, "db", "purge") == Done(
        0, "deleted 0 requests, 0 leases, 0 events, 0 keys, 0 records, 0 owners\n", ""
    )


def test_what_is_wrong_is_one_line_with_a_code(tmp_path: Path) -> None:
    done = run("manage", tmp_path, "db", "purge")
    assert done.code == ExitCode.UNAVAILABLE
    assert done.err.endswith("[database-not-migrated]\n")
    assert done.err.count("\n") == 1
    done = run("manage", tmp_path, "db", "sync", text="connection = oracle://x\n")
    assert done.code == ExitCode.CONFIG
    assert "[bad-database-url]" in done.err


def test_a_keeper_tells_slips_of_the_pen_when_it_starts(tmp_path: Path) -> None:
    done = run("keeper", tmp_path, text="[webhook]\nrul = https://hooks.example\n")
    assert "[webhook] rul is no option of Cantle and has no effect; did you mean url?" in done.err
    assert done.err.endswith("[database-not-migrated]\n")


def checks(done: Done) -> dict[str, str]:
    """Result by check, from the table."""
    lines = [line.strip("| ") for line in done.out.splitlines()]
    names = [line.removeprefix("Check: ") for line in lines if line.startswith("Check: ")]
    return dict(
        zip(names, [line.removeprefix("Result: ") for line in lines if line.startswith("Result: ")], strict=True)
    )


def test_a_ready_installation_is_told_from_one_that_is_not(tmp_path: Path) -> None:
    empty = run("status", tmp_path, "upgrade", "check")
    assert empty.code == 2
    assert checks(empty)["Database schema"] == "Failure"
    run("manage", tmp_path, "db", "sync")
    done = run("status", tmp_path, "upgrade", "check")
    assert done.code == 0, done
    assert set(checks(done).values()) == {"Success"}
    assert len({len(line) for line in done.out.splitlines()}) == 1, "a table"


@pytest.mark.parametrize(
    "asked", [("status", "upgrade", "check"), ("manage", "db", "version"), ("manage", "db", "purge")]
)
def test_asking_after_a_database_that_is_not_there_makes_none(tmp_path: Path, asked: tuple[str, ...]) -> None:
    done = run(asked[0], tmp_path, *asked[1:])
    assert "empty" in done.out or "There is no database" in done.out + done.err
    assert [file.name for file in tmp_path.iterdir()] == ["cantle.conf"]


def test_openstack_without_a_way_to_tell_nova_is_a_warning(tmp_path: Path) -> None:
    run("manage", tmp_path, "db", "sync")
    done = run("status", tmp_path, "upgrade", "check", text="[api]\nauth = keystone\n")
    assert done.code == 1
    assert checks(done)["Events to Nova"] == "Warning"


@pytest.mark.parametrize(
    ("login", "result", "says"),
    [("admin", "Success", ""), ("service", "Warning", "role add"), ("none", "Warning", "cannot log in")],
)
def test_a_login_with_which_nova_knows_no_server_is_a_warning(
    tmp_path: Path, login: str, result: str, says: str
) -> None:
    run("manage", tmp_path, "db", "sync")
    keystone = KeystoneStandIn()
    with http_server(keystone) as url:
        keystone.url, keystone.login, keystone.failing = url, login, login == "none"
        who = "username = u\npassword = p\nuser_domain_id = default\nproject_name = p\nproject_domain_id = default\n"
        text = f"[nova]\nauth_type = password\nauth_url = {url}/v3\n{who}"
        done = run("status", tmp_path, "upgrade", "check", text=text)
    assert checks(done)["Events to Nova"] == result, done
    assert says in done.out


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("[keeper]\nevent_days = many\n", "Configuration"),
        ("[webhook]\nurl = https://hooks.example\n", "Configuration"),
        ("[oslo_policy]\npolicy_file = broken.yaml\n", "Policy file"),
        ("[database]\nconnection = sqlite:////no/such/place/cantle.db\n", "Database"),
    ],
)
def test_what_stands_in_the_way_of_a_start_is_a_failure(tmp_path: Path, text: str, check: str) -> None:
    (tmp_path / "broken.yaml").write_text("- [\n")
    run("manage", tmp_path, "db", "sync")
    done = run("status", tmp_path, "upgrade", "check", text=text)
    assert done.code == 2, done
    assert checks(done)[check] == "Failure"


def test_a_damaged_database_is_a_failure_of_the_database(tmp_path: Path) -> None:
    (tmp_path / "cantle.db").write_text("no database at all, " * 500)
    done = run("status", tmp_path, "upgrade", "check")
    assert done.code == 2
    assert checks(done)["Database"] == "Failure"


@contextmanager
def keeper(place: Path, text: str) -> Iterator[subprocess.Popen[str]]:
    """A running keeper that has said that it is at work."""
    command = [sys.executable, "-m", "cantle.cli.keeper", "--config-file", str(config(place, text))]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=clean({})
    ) as process:
        try:
            assert process.stderr is not None
            with selectors.DefaultSelector() as selector:
                selector.register(process.stderr, selectors.EVENT_READ)
                assert selector.select(PATIENCE), "the keeper says nothing"
            assert any("is at work" in line for line in process.stderr)
            threading.Thread(target=process.stderr.read, daemon=True).start()  # or it would wait for a reader
            yield process
        finally:
            process.kill()


def outcome(place: Path) -> str | None:
    """How the one event ended, so far."""
    with sqlite3.connect(place / "cantle.db") as connection:
        (row,) = connection.execute("SELECT outcome FROM outbox").fetchall()
    connection.close()
    return row[0] if row[0] is None else str(row[0])


def test_everything_a_keeper_says_is_json_where_that_is_wanted_and_systemd_hears_of_life_until_it_stops(
    tmp_path: Path,
) -> None:
    """Its word that it is at work was plain text."""
    run("manage", tmp_path, "db", "sync")
    file = config(tmp_path, "[webhook]\nrul = https://hooks.example\n")
    file.write_text(file.read_text().replace("[database]", "[DEFAULT]\nuse_json = true\n[database]"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE)
        command = [sys.executable, "-m", "cantle.cli.keeper", "--config-file", str(file)]
        asked = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean(asked)
        ) as process:
            try:
                heard = [systemd.recv(100) for _ in range(3)]
                process.send_signal(signal.SIGTERM)
                said, _ = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
    assert set(heard) == {b"READY=1", b"WATCHDOG=1"}
    messages = [json.loads(line)["message"] for line in said.splitlines()]
    assert any(message.startswith("cantle-keeper is at work on ") for message in messages)


def test_a_keeper_delivers_what_was_there_before_it_and_ends_when_told(tmp_path: Path) -> None:
    with listening() as listener:
        _event(tmp_path)
        with keeper(tmp_path, f"[webhook]\nurl = {listener.url}/hook\nsecret = {SECRET}\n") as process:
            until(lambda: outcome(tmp_path) == "delivered")
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        assert len(listener.requests) == 1


def test_a_keeper_that_is_told_to_end_lets_the_call_under_way_finish(tmp_path: Path) -> None:
    with listening() as listener:
        _event(tmp_path)
        listener.answers = [HANG]
        with keeper(tmp_path, f"[webhook]\nurl = {listener.url}/hook\nsecret = {SECRET}\n") as process:
            until(lambda: len(listener.requests) == 1)
            process.send_signal(signal.SIGTERM)
            listener.over.set()
            assert process.wait(PATIENCE) == 0
        assert outcome(tmp_path) is None, "it was not taken, and is still to be sent"
        with sqlite3.connect(tmp_path / "cantle.db") as connection:
            claimed = connection.execute("SELECT claimed_by, problem FROM outbox").fetchall()
        connection.close()
        assert claimed[0][0] is None, "and given back, not left to run out"
        assert "cannot be reached" in claimed[0][1]


def test_a_killed_keeper_leaves_the_event_to_the_next(tmp_path: Path) -> None:
    text = "[webhook]\nurl = {url}/hook\nsecret = " + SECRET + "\n"
    with listening() as listener:
        _event(tmp_path)
        listener.answers = [HANG]
        with keeper(tmp_path, text.format(url=listener.url)) as process:
            until(lambda: len(listener.requests) == 1)
            process.kill()
            process.wait(PATIENCE)
        with sqlite3.connect(tmp_path / "cantle.db") as connection:
            connection.execute("UPDATE outbox SET claimed_until = '2001-01-01 00:00:00.000000'")
        connection.close()
        with keeper(tmp_path, text.format(url=listener.url)) as process:
            until(lambda: outcome(tmp_path) == "delivered")
        first, second = listener.requests
        assert first.headers["webhook-id"] == second.headers["webhook-id"]


def test_cantle_serve_tells_a_webhook_what_becomes_of_a_lease(tmp_path: Path) -> None:
    with listening() as listener:
        told_file = tmp_path / "told.conf"
        told_file.write_text(f"[webhook]\nurl = {listener.url}/hook\nsecret = {SECRET}\n")
        with serving(tmp_path, "--config-file", str(told_file)) as server:
            server.await_capacity()
            profile = tmp_path / "gold.yaml"
            profile.write_text("name: gold\ngroups:\n- resources:VGPU: 1\n")
            assert server.cantle("profile", "create", "-f", str(profile)).code == 0
            lease = server.json("lease", "create", "gold", "--wait")
            until(lambda: "lease.active" in [request.json["type"] for request in listener.requests])
            assert server.cantle("lease", "release", lease["uuid"], "--wait").code == 0
            until(lambda: "lease.released" in [request.json["type"] for request in listener.requests])
    kinds = [request.json["type"] for request in listener.requests if request.json["data"]["uuid"] == lease["uuid"]]
    assert kinds == ["lease.pending", "lease.active", "lease.releasing", "lease.released"]


def test_api_and_keeper_apart_tell_nova_over_postgresql(tmp_path: Path) -> None:
    url = Postgres.shared().new_database()
    migrate.upgrade(url)
    with listening() as listener:
        text = f"connection = {url}\n[nova]\nauth_type = none\nendpoint_override = {listener.url}\n"
        with keeper(tmp_path, text) as process:
            db = wsgi._database(files.read([str(tmp_path / "cantle.conf")]))
            host = Host(db)
            host.report(t4(2))
            make_profile(db)
            (good,) = bound(db, host)
            until(lambda: listener.statuses == ["completed"])
            host.refusing["*"] = "mdev-no-space"
            (bad,) = bound(db, host)
            until(lambda: listener.statuses.count("failed") >= 2)
            assert bad.shown_state is ArqState.BIND_STARTED
            delete_arqs(db, NOVA_FOR_ALICE, [bad.uuid])
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
            db.close()
    assert {event["tag"] for event in listener.events} == {good.uuid, bad.uuid}


def _event(place: Path) -> None:
    """One event for the webhook, written by another process as it were."""
    db = Database.open(sqlite_url(place))
    with told(db, Outlets(webhook=True)):
        host = Host(db)
        host.report(t4(1))
        make_profile(db)
        bound(db, host)
    db.close()
