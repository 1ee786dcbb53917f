"""One libvirt and one server for all tests of this folder, in starts of the guest of their own. They run in the order of files, and the
last one loses power with units lent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.guest import configuration, sysfs
from tests.kernel.guest.configuration import T4
from tests.kernel.guest.nested import libvirt
from tests.kernel.guest.nested.libvirt import Daemon, Domain
from tests.kernel.guest.world import World

KEEP = Path("/keep/nested")
#: Written before power is lost: the leases, by profile.
LENT = KEEP / "lent.json"
PROFILES = {
    "slice": {"resources:VGPU": "1", "trait:CUSTOM_NVIDIA_1EB8_T4_2B": "required"},
    "serial": {"resources:VGPU": "1", "trait:CUSTOM_MDEV_MTTY_DUAL_PORT_SERIAL": "required"},
    "second": {"resources:PGPU": "1", "trait:CUSTOM_NVIDIA_1EB8": "required"},
}


class Patient(World):
    """One whose agent waits for guests that are emulated twice."""

    def wait_for(self, lease: dict[str, Any], state: str, seconds: float = 400.0) -> dict[str, Any]:
        """See :meth:`World.wait_for`."""
        return super().wait_for(lease, state, seconds)


@pytest.fixture(scope="package")
def daemon(cards: None) -> Iterator[Daemon]:
    """libvirt, with the domains that it had before a loss of power."""
    KEEP.mkdir(exist_ok=True)
    daemon = Daemon(KEEP / "libvirt")
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()


@pytest.fixture(scope="package")
def world(daemon: Daemon) -> Iterator[World]:
    """A new one in the first boot; in the next one what is left of it, started again."""
    again = (KEEP / "state").exists()
    world = Patient(KEEP / "state", configuration.write(KEEP))
    try:
        sysfs.until(lambda: T4 in world.capacity(), "the agent's first report", 300)
        for name, group in {} if again else PROFILES.items():
            world.profile(name, group)
        yield world
    finally:
        world.server.stop()


@pytest.fixture(scope="package")
def vm(daemon: Daemon) -> Iterator[Domain]:
    """The guest of the story."""
    yield from _domain("vm1", 1)


@pytest.fixture(scope="package")
def other(daemon: Daemon) -> Iterator[Domain]:
    """Another guest."""
    yield from _domain("vm2", 2)


def _domain(name: str, number: int) -> Iterator[Domain]:
    sysfs.until(libvirt.answers, "libvirt answers", 300)
    made = Domain(name, number)
    if name not in libvirt.virsh("list", "--all", "--name").split():
        made.define()
    yield made
    made.pull_the_plug()
