"""What the tests of this tier share: one OpenStack with Cantle in it for the whole run."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.openstack.places import LOCK, RUN
from tests.openstack.servers import Servers
from tests.openstack.stack import Stack, up
from tests.real.conftest import pytest_runtest_makereport, pytest_runtest_protocol  # noqa: F401 - a failure shows the services' logs
from tests.real.openstack_cli import OpenStackCli
from tests.real.places import STACK


@pytest.fixture(scope="session")
def directory() -> Iterator[Path]:
    """Configuration and logs of this run, empty at first; one run at a time in a checkout."""
    STACK.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pytest.exit(f"another 'make test-openstack' runs in this checkout: it holds {lock.name}", returncode=2)
        shutil.rmtree(RUN, ignore_errors=True)
        (RUN / "log").mkdir(parents=True)
        yield RUN


@pytest.fixture(scope="session")
def running(directory: Path) -> Iterator[tuple[Stack, OpenStackCli]]:
    """The stack, and the ``openstack`` command for it."""
    with up(directory) as made:
        yield made


@pytest.fixture(scope="session")
def stack(running: tuple[Stack, OpenStackCli]) -> Stack:
    """All services, up."""
    return running[0]


@pytest.fixture(scope="session")
def openstack(running: tuple[Stack, OpenStackCli]) -> OpenStackCli:
    """The ``openstack`` command, python-openstackclient's own."""
    return running[1]


@pytest.fixture(scope="session")
def cloud_with_servers(stack: Stack, openstack: OpenStackCli) -> Servers:
    """An image, device profiles and flavors; both computes and both cards of each are known to Placement."""
    made = Servers(stack, openstack)
    made.prepare()
    return made


@pytest.fixture
def servers(cloud_with_servers: Servers) -> Iterator[Servers]:
    """Boots servers. Those a test leaves are deleted after it, and then nothing of theirs may be left anywhere."""
    yield cloud_with_servers
    cloud_with_servers.delete_all()
    cloud_with_servers.assert_nothing_is_left()
