"""On which socket each node of a real machine of two sockets is, against what lscpu says, also with a CPU offline."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.guest import sysfs

from cantle.kernel import numa
from cantle.kernel.root import Root

CPU = Path("/sys/devices/system/cpu/cpu1/online")


def lscpu() -> dict[int, int | None]:
    """Node and socket of each CPU that is online, in lscpu's words."""
    listed = subprocess.run(["lscpu", "-p=NODE,SOCKET"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(",") for line in listed.splitlines() if not line.startswith("#")]
    return {int(node): int(socket) for node, socket in rows}


@pytest.fixture
def one_cpu() -> Iterator[None]:
    """A machine of which one CPU is offline: the only one of its node."""
    sysfs.write(CPU, "0")
    yield
    sysfs.write(CPU, "1")


def test_two_sockets_with_a_node_each() -> None:
    assert numa.sockets(Root()) == (lscpu(), [])
    assert len(lscpu()) == 2
    assert len(set(lscpu().values())) == 2


@pytest.mark.usefixtures("one_cpu")
def test_a_node_whose_only_cpu_is_offline_is_on_no_socket() -> None:
    assert numa.sockets(Root()) == (lscpu(), [])
    assert len(lscpu()) == 1
