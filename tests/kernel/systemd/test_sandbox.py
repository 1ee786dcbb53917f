"""What a unit's sandbox leaves and what it denies, asked from inside of one: a unit with the same lines and another program."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.systemd.cloud import AGENT, RESTORE, SERVERS, Cloud

_PROBE = Path(__file__).with_name("probe.py")

#: What an agent's sandbox leaves, by the names of probe.py.
WORK = {
    "read /etc/cantle/cantle.conf",
    "write /sys",
    "write /run",
    "write /var/lib/cantle",
    "write /var/lib/lxc",
    "read /proc/1",
    "open a VFIO group",
    "enter a mount namespace",
    "load a module",
}


@pytest.fixture(scope="module")
def allowed(cloud: Cloud) -> Iterator[dict[str, set[str]]]:
    """What the probe could do, by unit, while a unit is lent: it has a VFIO group."""
    computer = cloud.computer
    lease = cloud.lend("serial")
    computer.run("install", "-d", "/opt/probe")
    computer.run("tee", "/opt/probe/probe.py", stdin=_PROBE.read_text(encoding="utf-8"))
    found = {}
    for unit in (*SERVERS, AGENT, RESTORE):
        text = computer.said("cat", f"/etc/systemd/system/{unit}")
        text = re.sub(r"^ExecStart=.*", "ExecStart=/usr/bin/python3 /opt/probe/probe.py", text, flags=re.MULTILINE)
        text = re.sub(r"^Type=.*", "Type=oneshot", text, flags=re.MULTILINE)
        text = re.sub(r"^(Restart\w*|RemainAfterExit|Requires|Conflicts)=.*\n", "", text, flags=re.MULTILINE)
        computer.run("tee", f"/run/systemd/system/probe-{unit}", stdin=text)
    computer.run("systemctl", "daemon-reload")
    for unit in (*SERVERS, AGENT, RESTORE):
        computer.run("systemctl", "start", f"probe-{unit}")
        found[unit] = set(json.loads(_answer(computer.journal(f"probe-{unit}"))))
    cloud.give_back(lease)
    yield found
    computer.sh("rm /run/systemd/system/probe-*; systemctl daemon-reload")


def _answer(lines: list[str]) -> str:
    return [line for line in lines if line.startswith("[")][-1]


@pytest.mark.parametrize("unit", [AGENT, RESTORE])
def test_a_hosts_service_can_do_its_work_and_nothing_beside_it(allowed: dict[str, set[str]], unit: str) -> None:
    assert allowed[unit] == WORK


@pytest.mark.parametrize("unit", SERVERS)
def test_a_servers_service_reads_its_configuration_and_can_do_nothing_else(
    allowed: dict[str, set[str]], unit: str
) -> None:
    assert allowed[unit] == {"read /etc/cantle/cantle.conf"}
