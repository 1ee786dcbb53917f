"""A real podman, with all that it keeps in a directory of the test."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.real import packages
from tests.real.cgroup_v2 import alone

_APPLETS = ("sh", "test")


def install() -> None:
    """Install it, as root, when it is not there; else say what is missing and end the program."""
    if not (shutil.which("podman") and shutil.which("crun") and Path("/bin/busybox").exists()):
        packages.install("podman", "crun", "busybox-static")


class Podman:
    """An engine without images: its containers have busybox and nothing else. On cgroup v2, since crun takes no hybrid host."""

    def __init__(self, directory: Path) -> None:
        self._rootfs = directory / "rootfs"
        for name in ("bin", "dev", "proc", "sys", "tmp", "etc", "run"):
            (self._rootfs / name).mkdir(parents=True)
        shutil.copy("/bin/busybox", self._rootfs / "bin/busybox")
        for applet in _APPLETS:
            (self._rootfs / "bin" / applet).symlink_to("busybox")
        places = ["--root", str(directory / "root"), "--runroot", str(directory / "run")]
        self._engine = [
            "podman",
            *places,
            "--storage-driver",
            "vfs",
            "--cgroup-manager",
            "cgroupfs",
            "--runtime",
            "crun",
        ]

    def run(self, script: str, *devices: str) -> subprocess.CompletedProcess[str]:
        """A shell in a container that has these devices, by their CDI names."""
        asked = [word for device in devices for word in ("--device", device)]
        limits = [
            "--network",
            "none",
            "--cgroups",
            "disabled",
            "--ulimit",
            "nofile=1024:1024",
            "--ulimit",
            "nproc=1024:1024",
        ]
        words = ["--events-backend", "none", "run", "--rm", "--log-driver", "none", *limits, *asked]
        argv = alone([*self._engine, *words, "--rootfs", str(self._rootfs), "/bin/sh", "-c", script])
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=90)
