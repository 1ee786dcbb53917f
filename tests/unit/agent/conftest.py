"""A server and a host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.databases import database
from tests.unit.agent.service import Service

from cantle import simulate


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """The agents' listener over an empty database with two profiles."""
    with database("sqlite", tmp_path) as db:
        server = Service(db)
        server.profiles()
        yield server
        db.wakeups.stop()
        server.down()


@pytest.fixture
def t4(tmp_path: Path) -> simulate.SimulatedRoot:
    """The host of the worked example."""
    return simulate.build(simulate.load("t4"), tmp_path / "t4")


@pytest.fixture
def host(t4: simulate.SimulatedRoot) -> simulate.SimulatedRoot:
    """The host of the worked example, with a container that is stopped."""
    place = Path(t4.path)
    (place / "var/lib/lxc/c1").mkdir(parents=True)
    (place / "var/lib/lxc/c1/config").write_text("lxc.uts.name = c1\n")
    (place / "sys/fs/cgroup").mkdir(parents=True)
    (place / "sys/fs/cgroup/cgroup.controllers").write_text("cpu\n")
    return t4
