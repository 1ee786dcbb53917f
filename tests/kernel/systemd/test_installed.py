"""The deployment guide, followed word for word on a new Debian: everything runs, and nothing has more of the machine than was said."""

from __future__ import annotations

import json

import pytest
from tests.kernel.systemd.cloud import AGENT, RESTORE, SERVERS, UNITS, Cloud

#: The highest exposure (systemd-analyze security) times ten that docs/deploy/README.md promises.
EXPOSURE = {**dict.fromkeys(SERVERS, 14), AGENT: 50, RESTORE: 50}


def test_every_unit_runs_and_none_has_started_twice(cloud: Cloud) -> None:
    computer = cloud.computer
    assert computer.said("systemctl", "is-active", *UNITS).split() == ["active"] * len(UNITS)
    assert computer.said("systemctl", "--failed", "--no-legend", "--plain") == ""
    assert {computer.unit(unit, "NRestarts")["NRestarts"] for unit in UNITS} == {"0"}


def test_systemd_finds_nothing_to_say_about_the_units(cloud: Cloud) -> None:
    ran = cloud.computer.run("systemd-analyze", "verify", "--man=no", *UNITS)
    assert [line for line in ran.err.splitlines() if "cantle" in line] == []


@pytest.mark.parametrize("unit", UNITS)
def test_no_unit_is_more_exposed_than_the_guide_says(cloud: Cloud, unit: str) -> None:
    cloud.computer.run("systemd-analyze", "security", "--no-pager", f"--threshold={EXPOSURE[unit]}", unit)


def test_only_the_services_read_the_configuration_which_has_passwords(cloud: Cloud) -> None:
    computer = cloud.computer
    assert computer.said("stat", "-c", "%a %U %G", "/etc/cantle", "/etc/cantle/cantle.conf").splitlines() == [
        "750 root cantle",
        "640 root cantle",
    ]
    assert computer.said("stat", "-c", "%a %U", "/var/lib/cantle").splitlines() == ["700 root"]
    assert computer.run("runuser", "-u", "nobody", "--", "cat", "/etc/cantle/cantle.conf", check=False).status != 0


def test_the_service_is_ready_and_its_command_sees_the_host(cloud: Cloud) -> None:
    assert cloud.call("GET", "/readyz")[0] == 200
    (host,) = json.loads(cloud.said("cantle", "host", "list", "-o", "json"))
    assert (host["hostname"], host["state"]) == ("gpu1", "up")


def test_upgrade_check_finds_nothing_in_the_way(cloud: Cloud) -> None:
    assert cloud.computer.run("cantle-status", "upgrade", "check", check=False).status < 2
