"""What every guest test stands on: the modules are in, the cards have their identities, and each test leaves no mediated device behind."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.guest.sysfs import MDEVS, function, mdevs, until, write
from tests.kernel.lab import machine
from tests.kernel.lab.inside import Host, Reporter

#: Written here by the harness.
_MODULES = Path("/lab/modules")


@pytest.fixture(scope="session", autouse=True)
def cards() -> None:
    """The emulated functions in the guise of machine.py, on drivers as a host has them; and the kernel's mediated-device samples."""
    for module in ("mdev", "vfio-pci", "vfio_iommu_type1", "e1000"):
        subprocess.run(["modprobe", module], check=True)
    for sample in ("mtty", "mdpy", "mbochs"):
        insmod(sample)
    insmod("labpci", *machine.labpci_parameters())
    insmod("labgpu", *machine.labgpu_parameters())
    subprocess.run(["modprobe", "snd_hda_intel"], check=True)  # after labpci, which would take the function from it
    sound = function(machine.address("geforce", 1)) / "sound"
    until(lambda: any(sound.glob("card*/controlC*")), "the audio function's driver has found its codec")


def insmod(name: str, *parameters: str) -> None:
    """Loads one of the lab's own modules."""
    folder = Path(_MODULES.read_text().strip())
    subprocess.run(["insmod", str(folder / f"{name}.ko"), *parameters], check=True)


@pytest.fixture(autouse=True)
def no_mdev_left(request: pytest.FixtureRequest, cards: None) -> Iterator[None]:
    """A test ends with the mediated devices it began with, mostly none; leftovers fail it and are taken away for the next."""
    before = mdevs()
    yield
    if request.node.get_closest_marker("leaves_mdevs"):
        return
    left = mdevs() - before
    for uuid in left:
        write(MDEVS / uuid / "remove", "1")
    assert not left, f"left behind: {sorted(left)}"


@pytest.fixture(scope="session")
def host(request: pytest.FixtureRequest) -> Host:
    """QEMU's monitor, by way of the host: pull a card with ``host.ask("device_del", id="hot")``."""
    reporter = request.config.pluginmanager.get_plugin("lab-reporter")
    assert isinstance(reporter, Reporter)
    return reporter.host
