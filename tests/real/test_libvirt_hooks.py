"""libvirt's own daemon calls the hook: what a domain borrowed is there before it starts, and nobody is kept from starting.

The cards are those of a simulated host, whose agent is asked; no machine of this tier has to have an IOMMU, so a domain with a mediated
device is refused by libvirt in the end, after its hook.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real.libvirt import Domain, answers, daemons, virsh
from tests.real.processes import Service, free_port, wait_until

SECONDS = 3


class Host:
    """Cantle with a simulated host, and the hooks that ask its agent."""

    def __init__(self, directory: Path) -> None:
        self._url = f"http://127.0.0.1:{free_port()}"
        words = ["serve", "--listen", self._url.removeprefix("http://"), "--simulate", "t4", "--simulated-only"]
        self.config = directory / "cantle.conf"
        self.config.write_text("[devices]\nenabled_mdev_types = nvidia-223\n")
        words += ["--config-file", str(self.config), "--state-dir", str(directory / "state")]
        self.service = Service("cantle", [sys.executable, "-m", "cantle.cli.main", *words], directory)
        self._directory = directory

    @property
    def tree(self) -> Path:
        """The simulated host's files."""
        [found] = (self._directory / "state/simulated").iterdir()
        return found

    def start(self) -> None:
        self.service.start(lambda: bool(self.offers()))

    def run(self, *words: str) -> str:
        """What a command prints; it must succeed."""
        argv = [sys.executable, "-m", "cantle.cli.main", "--url", self._url, *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def offers(self) -> str:
        argv = [sys.executable, "-m", "cantle.cli.main", "--url", self._url, "capacity", "-o", "value", "-c", "free"]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60).stdout

    def mdevs(self) -> set[str]:
        place = self.tree / "sys/bus/mdev/devices"
        return {one.name for one in place.iterdir()} if place.is_dir() else set()


def look_for_hooks_again() -> None:
    """A daemon that runs already finds new hooks when it reads its configuration anew."""
    for name in ("libvirtd", "virtqemud"):
        file = Path(f"/run/{name}.pid")
        if file.exists():
            os.kill(int(file.read_text()), signal.SIGHUP)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Up, and a libvirt whose daemon found the hook when it started."""
    directory = tmp_path_factory.mktemp("hooks")
    made = Host(directory)
    mine: list[Service] = []
    try:
        made.start()
        made.run("profile", "create", "slice", "--group", "resources:VGPU=1")
        made.run("agent", "hooks", "install", "--seconds", str(SECONDS), "--directory", str(made.tree / "run/cantle"))
        if answers():
            look_for_hooks_again()
        for service in [] if answers() else daemons(directory):
            service.start(answers if service.name == "libvirtd" else lambda service=service: service.running)  # type: ignore[misc]
            mine.append(service)
        yield made
    finally:
        made.run("agent", "hooks", "remove")
        for service in (*reversed(mine), made.service):
            service.stop()


@pytest.fixture
def domain(host: Host, tmp_path: Path) -> Iterator[Domain]:
    """One that is defined and does not run."""
    made = Domain(tmp_path)
    yield made
    made.remove()


def lend(host: Host) -> tuple[str, str]:
    """A lease of a slice, and the slice's uuid. Whoever borrowed it attaches it."""
    lease = json.loads(host.run("lease", "create", "slice", "--wait", "-o", "json"))
    return lease["uuid"], lease["arqs"][0]["attach_handle_uuid"]


def remove_by_hand(host: Host, slice_: str) -> None:
    """As a person would, or a reboot."""
    from cantle import simulate  # noqa: PLC0415 - the tree is another process's
    from cantle.kernel import mdev  # noqa: PLC0415

    mdev.remove(simulate.SimulatedRoot(host.tree), slice_)
    assert slice_ not in host.mdevs()


def has(domain: Domain, slice_: str, tmp_path: Path) -> None:
    """It is defined with the slice."""
    file = tmp_path / "slice.xml"
    file.write_text(
        f"<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'><source><address uuid='{slice_}'/></source></hostdev>"
    )
    virsh("attach-device", domain.name, str(file), "--config")


def test_a_domain_that_borrowed_a_slice_finds_it_though_it_had_gone(host: Host, domain: Domain, tmp_path: Path) -> None:
    lease, slice_ = lend(host)
    has(domain, slice_, tmp_path)
    remove_by_hand(host, slice_)
    virsh("start", domain.name, check=False)
    assert slice_ in host.mdevs()
    host.run("lease", "release", lease, "--wait")


def test_a_domain_without_a_lease_starts_whatever_the_agent_does(host: Host, domain: Domain) -> None:
    lease, _ = lend(host)
    virsh("start", domain.name)
    virsh("destroy", domain.name)
    host.service.signal(signal.SIGSTOP)
    try:
        virsh("start", domain.name)
    finally:
        host.service.signal(signal.SIGCONT)
    virsh("destroy", domain.name)
    host.run("lease", "release", lease, "--wait")


def test_a_domain_with_a_lease_is_not_kept_from_starting_by_an_agent_that_hangs(
    host: Host, domain: Domain, tmp_path: Path
) -> None:
    """That it does not start has another reason, and is libvirt's own word."""
    lease, slice_ = lend(host)
    has(domain, slice_, tmp_path)
    host.service.signal(signal.SIGSTOP)
    try:
        argv = ["virsh", "-q", "-c", "qemu:///system", "start", domain.name]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert "VFIO" in done.stderr or "mediated" in done.stderr, done.stderr
        assert "hook" not in done.stderr.lower()
    finally:
        host.service.signal(signal.SIGCONT)
    wait_until("the agent goes on", lambda: bool(host.offers()))
    host.run("lease", "release", lease, "--wait")
