"""The units and the other files for an installation by hand: systemd takes them, and the sandboxes leave what the work needs."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from tests.unit.house.checkout import CHECKOUT

DEPLOY = CHECKOUT / "docs" / "deploy"
UNITS = sorted(path.name for path in (DEPLOY / "systemd").glob("*.service"))
SOCKETS = sorted(path.name for path in (DEPLOY / "systemd").glob("*.socket"))
OF_THE_SERVER = ["cantle-api.service", "cantle-api-agents.service", "cantle-keeper.service"]
GUNICORNS = ["gunicorn-api.conf.py", "gunicorn-agents.conf.py"]
OF_THE_HOST = ["cantle.service", "cantle-agent.service", "cantle-restore.service"]

#: What would take away from a host's service what it is there for: files of the kernel, devices, modules, other users' processes.
IN_THE_WAY = {
    "PrivateDevices",
    "PrivateUsers",
    "ProtectKernelTunables",
    "ProtectKernelModules",
    "ProtectProc",
    "ProcSubset",
    "InaccessiblePaths",
    "User",
}


def directives(unit: str) -> dict[str, list[str]]:
    """The words of each directive; one that is written several times adds up, as for systemd."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in (DEPLOY / "systemd" / unit).read_text(encoding="utf-8").splitlines():
        key, is_directive, words = line.partition("=")
        if is_directive and not line.startswith("#"):
            found[key] += words.split()
    return found


def test_each_unit_is_a_servers_or_a_hosts() -> None:
    assert sorted([*OF_THE_SERVER, *OF_THE_HOST]) == UNITS


@pytest.mark.parametrize("unit", OF_THE_HOST)
def test_the_sandbox_of_a_hosts_service_leaves_sys_and_vfio_usable(unit: str) -> None:
    found = directives(unit)
    assert set(found) & IN_THE_WAY == set()
    assert found["ProtectSystem"] == ["strict"]
    assert "/sys" in found["ReadWritePaths"]
    assert {"CAP_SYS_ADMIN", "CAP_SYS_MODULE", "CAP_SYS_PTRACE", "CAP_DAC_OVERRIDE"} <= set(
        found["CapabilityBoundingSet"]
    )
    assert "@module" in found["SystemCallFilter"]
    assert "AF_NETLINK" in found["RestrictAddressFamilies"]
    # A VFIO group that may not be opened would not be known to be in use; its number is known once the module is there.
    assert found["DevicePolicy"] == ["closed"]
    assert "char-vfio" in found["DeviceAllow"]
    assert "modprobe@vfio.service" in set(found["Wants"]) & set(found["After"])


@pytest.mark.parametrize("unit", OF_THE_HOST)
def test_the_sandbox_of_a_hosts_service_lets_it_into_guests(unit: str) -> None:
    """What tests/real/test_lxc.py does as root needs these."""
    found = directives(unit)
    assert {"/run", "-/var/lib/lxc"} <= set(found["ReadWritePaths"])
    assert "ProtectControlGroups" not in found
    assert {"CAP_SYS_CHROOT", "CAP_SETUID", "CAP_SETGID", "CAP_CHOWN"} <= set(found["CapabilityBoundingSet"])
    assert "@mount" in found["SystemCallFilter"]
    assert {"mnt", "user"} == set(found["RestrictNamespaces"])


@pytest.mark.parametrize("unit", OF_THE_SERVER)
def test_a_servers_service_is_nobody_in_particular_and_has_no_way_to_the_machine(unit: str) -> None:
    found = directives(unit)
    assert found["User"] == ["cantle"]
    assert found["CapabilityBoundingSet"] == []
    for name in ("NoNewPrivileges", "PrivateDevices", "ProtectKernelTunables", "ProtectHome", "RestrictNamespaces"):
        assert found[name] == ["yes"], name
    assert found["ProtectSystem"] == ["strict"]


def test_every_file_a_unit_names_is_one_of_ours() -> None:
    named = {word for unit in UNITS for word in directives(unit)["ExecStart"] if word.startswith("/etc/cantle/")}
    assert {Path(word).name for word in named} == {"gunicorn-api.conf.py", "gunicorn-agents.conf.py"}
    assert all((DEPLOY / Path(word).name).exists() for word in named)


@pytest.mark.parametrize("socket", SOCKETS)
def test_a_port_that_systemd_holds_is_the_one_that_gunicorn_would_have_taken(socket: str) -> None:
    service = directives(f"{Path(socket).stem}.service")
    assert service["Requires"] == [socket]
    (configuration,) = [word for word in service["ExecStart"] if word.startswith("/etc/cantle/")]
    text = (DEPLOY / Path(configuration).name).read_text(encoding="utf-8")
    assert f'bind = "{directives(socket)["ListenStream"][0]}"' in text


def test_systemd_takes_every_unit_where_it_is_at_hand(tmp_path: Path) -> None:
    for unit in [*UNITS, *SOCKETS]:
        text = (DEPLOY / "systemd" / unit).read_text(encoding="utf-8")
        (tmp_path / unit).write_text(
            re.sub(r"^(Exec\w+)=/usr/bin/\S+", r"\1=/bin/true", text, flags=re.MULTILINE)
        )
    tool = shutil.which("systemd-analyze")
    if tool is not None:
        command = [tool, "verify", "--man=no", *(str(tmp_path / unit) for unit in UNITS)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, [line for line in done.stderr.splitlines() if "cantle" in line]) == (0, [])


def test_the_user_and_the_directories_are_those_of_the_units() -> None:
    assert re.search(r"^u cantle ", (DEPLOY / "sysusers.conf").read_text(encoding="utf-8"), re.MULTILINE)
    entries = [
        line.split()
        for line in (DEPLOY / "tmpfiles.conf").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    owners = {path: (mode, user, group) for _, path, mode, user, group, _ in entries}
    assert owners["/etc/cantle/cantle.conf"] == ("0640", "root", "cantle")
    assert all(mode in ("0640", "0750") for mode, _, _ in owners.values()), "it has passwords"


def test_the_proxys_limits_are_those_of_the_service() -> None:
    """A body that nginx lets through is not refused by the service, nor the other way round."""
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    assert re.findall(r"client_max_body_size (\d+)m;", text) == ["1", "16"]
    assert "proxy_next_upstream off;" in text


@pytest.mark.parametrize("name", GUNICORNS)
def test_a_stop_of_gunicorn_does_not_wait_for_a_worker_that_was_just_starting(name: str) -> None:
    """It took `graceful_timeout`, and then killed the worker with what it was answering: a worker inherits the master's handlers, which
    take a signal and leave it. Here the signal comes when it begins to load the service."""
    worker = (
        "import os, runpy, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda number, frame: None)\n"
        "post_fork = runpy.run_path(sys.argv[1])['post_fork']\n"
        "def stop(event, arguments):\n"
        "    if event == 'import' and arguments[0] == 'cantle.wsgi':\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.addaudithook(stop)\n"
        "post_fork(None, None)\n"
    )
    ended = subprocess.run([sys.executable, "-c", worker, str(DEPLOY / name)], check=False, timeout=60)
    assert ended.returncode == -signal.SIGTERM
