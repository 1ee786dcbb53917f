"""One server for all tests of this folder, on the guest's real root, its state on the disk at /keep. They run in the order of files.

The last of them, test_reboot.py, takes its power away and goes on in the next start of the guest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.guest import configuration, sysfs
from tests.kernel.guest.configuration import T4
from tests.kernel.guest.world import World

KEEP = Path("/keep")
#: Written as the last thing before power is lost: what was lent then.
LENT = KEEP / "lent.json"
TRAIT = "CUSTOM_NVIDIA_1EB8_T4_2B"
PROFILES = {
    "slice": {"resources:VGPU": "1", f"trait:{TRAIT}": "required"},
    "small": {"resources:VGPU": "1", "trait:CUSTOM_NVIDIA_1EB8_T4_1B": "required"},
    "serial": {"resources:VGPU": "1", "trait:CUSTOM_MDEV_MTTY_DUAL_PORT_SERIAL": "required"},
    "screen": {"resources:CUSTOM_SCREEN": "1"},
    "picture": {"resources:CUSTOM_PICTURE": "1"},
    "second": {"resources:PGPU": "1", "trait:CUSTOM_NVIDIA_1EB8": "required"},
    "whole": {"resources:PGPU": "1", "trait:CUSTOM_NVIDIA_2204": "required"},
    "hot": {"resources:PGPU": "1", "trait:CUSTOM_NVIDIA_2230": "required"},
}


@pytest.fixture(scope="package")
def world(cards: None) -> Iterator[World]:
    """A new one in the first boot; in the next one what is left of it, started again."""
    world = World(KEEP / "state", configuration.write(KEEP))
    try:
        sysfs.until(lambda: T4 in world.capacity(), "the agent's first report")
        if not LENT.exists():
            for name, group in PROFILES.items():
                world.profile(name, group)
        yield world
    finally:
        world.server.stop()


@pytest.fixture(autouse=True)
def nothing_lent(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails leaves its leases behind; the next one starts without. Around the loss of power they stay."""
    yield
    if "world" in request.fixturenames and not LENT.exists():
        request.getfixturevalue("world").give_back_all()
