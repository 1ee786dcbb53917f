"""Our own command where Keystone says who asks: the same words, the same answers, as with our tokens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.real.accelerator import Accelerator, FakeDevice
from tests.real.cloud import Cloud


class Done(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


class Command:
    """``cantle`` as an operator of a cloud has it: a ``clouds.yaml``, and nothing said of where the service is."""

    def __init__(self, clouds: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "CANTLE_"))}
        self._env = {**kept, "OS_CLIENT_CONFIG_FILE": str(clouds)}

    def __call__(self, person: str, *words: str, **environment: str) -> Done:
        """Run it as this person."""
        done = subprocess.run(
            [sys.executable, "-m", "cantle.cli.main", *words],
            env={**self._env, "OS_CLOUD": person, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def cantle(directory: Path, accelerator: Accelerator, fake: FakeDevice) -> Command:
    """The command; the service is in the catalog."""
    return Command(directory / "clouds.yaml")


def test_the_service_is_found_in_the_catalog_and_answers_an_administrator(cantle: Command) -> None:
    done = cantle("admin", "device", "list", "-o", "json")
    assert (done.status, done.err) == (0, "")
    assert [device["health"] for device in json.loads(done.out)] == ["ok"]


def test_whoever_may_not_is_told_the_rule_and_the_exit_code_says_so(cantle: Command) -> None:
    done = cantle("demo", "device", "list")
    assert (done.status, done.out) == (5, "")
    assert "cantle:device:get_all" in done.err


def by_environment(cloud: Cloud, directory: Path, **other: str) -> dict[str, str]:
    """The administrator's login as ``OS_*``, without a ``clouds.yaml``."""
    known = {f"OS_{name.upper()}": value for name, value in cloud.credentials("admin").items()}
    return {**known, "OS_REGION_NAME": "RegionOne", "OS_CLIENT_CONFIG_FILE": str(directory / "none"), **other}


def test_the_environment_alone_is_enough(cantle: Command, cloud: Cloud, directory: Path) -> None:
    done = cantle("", "host", "list", "-c", "hostname", "-o", "value", **by_environment(cloud, directory))
    assert (done.status, done.err) == (0, "")
    assert done.out.strip()


def test_a_wrong_password_is_told_as_such(cantle: Command, cloud: Cloud, directory: Path) -> None:
    done = cantle("", "host", "list", **by_environment(cloud, directory, OS_PASSWORD="hunter2"))
    assert (done.status, done.out) == (5, "")
    assert "[keystone-refused]" in done.err
    assert "hunter2" not in done.err


def test_a_lease_from_its_beginning_to_its_end(cantle: Command) -> None:
    name = f"real-{uuid.uuid4().hex[:8]}"
    group = "resources:FPGA=1,trait:CUSTOM_FAKE_DEVICE=required"
    assert cantle("admin", "profile", "create", name, "--group", group).status == 0
    made = cantle("demo", "lease", "create", name, "--wait", "-o", "json")
    assert made.status == 0, made.err
    lease = json.loads(made.out)
    assert lease["state"] == "active"
    assert cantle("demo", "lease", "show", lease["uuid"], "-c", "state", "-o", "value").out == "active\n"
    assert cantle("demo", "lease", "release", lease["uuid"], "--wait").status == 0
    assert cantle("admin", "profile", "delete", name).status == 0
