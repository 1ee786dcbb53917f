"""Running and stopping ``cantle serve``."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.serving import CANTLE, PATIENCE, Serving, cantle, clean, refused, serve_command, serving

from cantle.cli.exit_codes import ExitCode
from cantle.cli.readiness import still_silent
from cantle.simulate import SimulatedRoot


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One server for the tests that leave it as it was."""
    with serving(tmp_path_factory.mktemp("serve")) as running:
        yield running


def test_a_second_server_on_one_state_directory_is_refused_and_the_first_goes_on(server: Serving) -> None:
    done = refused(server.state.parent)
    assert done.code == ExitCode.CONFLICT
    assert f"process {server.process.pid}" in done.err
    assert "[state-dir-in-use]" in done.err
    assert server.cantle("host", "list").code == 0


def test_everything_it_writes_is_for_its_own_user(server: Serving) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [server.state, *server.state.iterdir()]}
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


def test_the_agents_listener_wants_its_secret(server: Serving) -> None:
    """Another user of this machine must not speak for a host."""
    ports = listening(server.process.pid) - {int(server.url.rpartition(":")[2])}
    assert len(ports) == 1
    done = cantle("host", "list", CANTLE_URL=f"http://127.0.0.1:{ports.pop()}")
    assert done.code in (ExitCode.FORBIDDEN, ExitCode.NOT_FOUND)


def test_one_secret_for_agents_of_all_hosts_is_warned_of_where_others_are_answered(tmp_path: Path) -> None:
    config = tmp_path / "agents.conf"
    config.write_text("[agents]\ntoken = s3cret\n")
    with serving(tmp_path, "--config-file", str(config), "--agents-listen", "127.0.0.1:0"):
        log = (tmp_path / "serve.log").read_text()
    assert "[agents] token is set: whoever has it may speak for any host" in log
    assert "s3cret" not in log


def test_with_tokens_the_first_administrators_is_in_a_file_for_this_user_and_every_call_needs_one(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "--auth", "token") as server:
        file = server.state / "admin.token"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        refused_call = server.cantle("host", "list")
        assert (refused_call.code, "[token-missing]" in refused_call.err) == (ExitCode.FORBIDDEN, True)
        assert cantle("--token-file", str(file), "host", "list", CANTLE_URL=server.url).code == 0
        secret = file.read_text().strip()
        made = cantle(
            "token", "create", "ci", "--role", "reader", "-o", "json", CANTLE_URL=server.url, CANTLE_TOKEN=secret
        )
        assert cantle("lease", "list", CANTLE_URL=server.url, CANTLE_TOKEN=json.loads(made.out)["token"]).code == 0
        assert cantle("token", "revoke", secret.split("_")[1], CANTLE_URL=server.url, CANTLE_TOKEN=secret).code == 0
        assert cantle("host", "list", CANTLE_URL=server.url, CANTLE_TOKEN=secret).code == ExitCode.FORBIDDEN
        lost = [sys.executable, "-m", "cantle.cli.manage", "token", "bootstrap", "--state-dir", str(server.state)]
        again = subprocess.run(lost, capture_output=True, text=True, check=True, timeout=PATIENCE, env=clean({}))
        assert cantle("host", "list", CANTLE_URL=server.url, CANTLE_TOKEN=again.stdout.strip()).code == 0
    log = (tmp_path / "serve.log").read_text()
    assert "admin.token" in log
    assert secret[-43:] not in log


def test_a_token_that_is_none_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for arguments, environment, code in (
        (["--token-file", str(tmp_path / "empty")], {}, "token-malformed"),
        (["--token-file", str(tmp_path / "absent")], {}, "token-unreadable"),
        ([], {"CANTLE_TOKEN": "a b"}, "token-malformed"),
    ):
        done = cantle(*arguments, "host", "list", **environment)
        assert (done.code, f"[{code}]" in done.err) == (ExitCode.CONFIG, True)


def listening(pid: int) -> set[int]:
    """TCP ports of 127.0.0.1 on which the process listens."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(link)
        except FileNotFoundError:  # closed since
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and row[9] in inodes}


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("name: x\ngroups: [{'resources:VGPU': '0'}]\n", "0"),
        ("name: x\ngroups: [{'trait:CUSTOM_A': required}]\n", ""),
        ("name: 'no blanks'\ngroups: [{'resources:VGPU': '1'}]\n", "no blanks"),
        ("name: x\ngroups: [{'size': '1'}]\n", "size"),
        ("name: x\n", "group"),
        ("groups: [{'resources:VGPU': '1'}]\n", "name"),
        ("a: [1", "line"),
        ("just words", "mapping"),
        ("\x00\x01", "YAML"),
    ],
)
def test_a_malformed_profile_is_refused_and_not_stored(
    server: Serving, tmp_path: Path, profile: str, words: str
) -> None:
    file = tmp_path / "profile.yaml"
    file.write_text(profile)
    done = server.cantle("profile", "create", "-f", str(file))
    assert done.code == ExitCode.USAGE, done
    assert words in done.err
    assert "Traceback" not in done.err
    assert server.json("profile", "list") == []


def test_an_unknown_profile_is_named(server: Serving) -> None:
    done = server.cantle("lease", "create", "no-such-profile")
    assert done.code == ExitCode.NOT_FOUND
    assert "no-such-profile" in done.err
    assert server.json("lease", "list") == []


def test_of_two_who_want_the_last_unit_at_once_exactly_one_gets_it(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        running.await_capacity()
        assert running.cantle("profile", "create", "whole", "--group", "resources:PGPU=1").code == 0
        command = [*CANTLE, "lease", "create", "whole", "--wait", "--timeout", "60"]
        rivals = [
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=clean({"CANTLE_URL": running.url}),
            )
            for _ in range(4)
        ]
        ends = [(*rival.communicate(timeout=PATIENCE), rival.returncode) for rival in rivals]
        assert sorted(code for _, _, code in ends) == [0, 4, 4, 4], ends
        assert all("[no-capacity]" in err for _, err, code in ends if code)
        assert [lease["state"] for lease in running.json("lease", "list")] == ["active"]


def test_a_lease_that_fails_and_holds_nothing_says_why_and_where_and_does_not_ask_to_give_back(tmp_path: Path) -> None:
    """A program on the host has the card open, as a guest started by hand would."""
    with serving(tmp_path) as running:
        running.await_capacity()
        assert running.cantle("profile", "create", "whole", "--group", "resources:PGPU=1").code == 0
        host = SimulatedRoot(running.state / "simulated" / "t4")
        host.hold("0000:86:00.0", command="qemu-by-hand")
        failed = running.cantle("lease", "create", "whole", "--wait")
        assert failed.code == ExitCode.FAILED
        assert "qemu-by-hand" in failed.err
        (lease,) = running.json("lease", "list")
        assert f"Lease {lease['uuid']} is failed on t4: " in failed.err
        step = "It holds nothing; to take it off the list: cantle lease release"
        assert failed.err.endswith(f"{step} {lease['uuid']} [lease-failed]\n")
        host.let_go()
        assert running.cantle("lease", "release", lease["uuid"], "--wait").code == 0
        assert running.json("lease", "create", "whole", "--wait")["state"] == "active"


def test_a_disk_that_becomes_full_is_told_and_the_server_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        running.await_capacity()
        unlimited = resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (1024, unlimited[1]))
        full = running.cantle("profile", "create", "small", "--group", "resources:VGPU=1")
        assert full.code == ExitCode.UNAVAILABLE, full
        assert "[database-" in full.err
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, unlimited)
        assert running.json("profile", "list") == []
        assert running.cantle("profile", "create", "small", "--group", "resources:VGPU=1").code == 0


# -- stopping --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_success_at_once_though_its_agent_waits_for_work(
    tmp_path: Path, number: signal.Signals
) -> None:
    """An agent's request for work waits for a minute; the end does not wait for it."""
    with serving(tmp_path) as running:
        running.await_capacity()
        running.process.send_signal(number)
        assert running.process.wait(20) == 0


def test_what_was_lent_is_still_lent_after_a_kill_and_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        first.await_capacity()
        assert first.cantle("profile", "create", "small", "--group", "resources:VGPU=1").code == 0
        lease = first.json("lease", "create", "small", "--wait")
        before = first.json("capacity")
        first.process.kill()
        first.process.wait(PATIENCE)
    with serving(tmp_path) as second:
        assert second.json("lease", "show", lease["uuid"])["state"] == "active"
        assert second.json("capacity") == before
        assert second.cantle("lease", "release", lease["uuid"], "--wait").code == 0
        assert all(row["free"] == row["total"] for row in second.json("capacity"))
        assert os.listdir(second.state / "simulated" / "t4" / "sys" / "bus" / "mdev" / "devices") == []


def test_the_first_command_after_it_said_that_it_serves_finds_the_cards(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--simulate", "fake") as running,
        contextlib.closing(sqlite3.connect(running.state / "cantle.db")) as database,
    ):
        hosts = database.execute("SELECT count(DISTINCT host_id) FROM devices").fetchall()
    assert hosts == [(2,)]


def test_a_host_that_is_stuck_holds_up_only_for_a_while_that_it_serves() -> None:
    told, stuck = threading.Event(), threading.Event()
    told.set()
    assert still_silent({"a": told, "b": stuck, "c": told}, seconds=0.01) == ["b"]
    stuck.set()
    assert still_silent({"a": told, "b": stuck}) == []


def test_systemd_is_told_when_it_is_ready_and_when_it_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE)
        with serving(tmp_path, NOTIFY_SOCKET=str(tmp_path / "notify")) as running:
            assert systemd.recv(100) == b"READY=1"
            running.process.send_signal(signal.SIGTERM)
            assert systemd.recv(100) == b"STOPPING=1"
            assert running.process.wait(PATIENCE) == 0


def test_ctrl_c_pressed_again_while_it_ends_leaves_no_process_behind(tmp_path: Path) -> None:
    """A request that is half sent holds the end up for a moment: the second Ctrl-C falls into it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE)
        with serving(tmp_path, NOTIFY_SOCKET=str(tmp_path / "notify")) as running:
            assert systemd.recv(100) == b"READY=1"
            with socket.create_connection(("127.0.0.1", int(running.url.rpartition(":")[2]))) as half:
                half.sendall(b"GET /v1/hosts HTTP/1.1\r\n")
                running.process.send_signal(signal.SIGINT)
                assert systemd.recv(100) == b"STOPPING=1"
                running.process.send_signal(signal.SIGINT)
                assert running.process.wait(PATIENCE) in (0, -signal.SIGINT)


def test_it_imports_nothing_from_the_directory_it_was_started_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ``logging.py`` that lies in /tmp must not become part of a server that root starts there."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    for name in ("logging", "sqlite3", "json", "cantle"):
        (place / f"{name}.py").write_text("raise SystemExit('imported from where it was started')\n")
    monkeypatch.chdir(place)
    command = [sys.executable, "-P", *serve_command(tmp_path)[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE)
    assert said.startswith("cantle is serving on"), err


def test_ctrl_c_while_it_starts_ends_it_without_a_complaint(tmp_path: Path) -> None:
    """All processes of the terminal get it, also the one that brings the database up to date."""
    command = serve_command(tmp_path)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean({}), process_group=0
    ) as process:
        while not (tmp_path / "state" / "lock").exists():
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (0, "", "")
