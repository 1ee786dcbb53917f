"""The disk of a machine that systemd runs: the root of tests/kernel/lab/systemd.sh with the lab's own few files."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import uuid
from pathlib import Path

from tests.kernel.lab import machine
from tests.kernel.lab.guest import Lab
from tests.real import lxc

HOST = "gpu1"
CONTAINER = "c1"
_FILES = Path(__file__).with_name("root")
_UNITS = ("lab-shell.service", "lab-cards.service", "nvidia-vgpud.service")
_BYTES = 3 << 30
_MODULES = "usr/local/lib/lab"


def make(lab: Lab, checkout: Path) -> Path:
    """A new disk, on which Cantle is installed as far as step 1 of the guide goes. The clone's docs are in /root/cantle."""
    root = lab.systemd
    shutil.copytree(_FILES, root, dirs_exist_ok=True)
    shutil.copytree(lab.folder / "modules", root / _MODULES, dirs_exist_ok=True)
    shutil.copytree(checkout / "docs" / "deploy", root / "root/cantle/docs/deploy", dirs_exist_ok=True)
    _script(
        root / "usr/local/sbin/lab-cards",
        ["modprobe", "-a", "mdev", "vfio-pci", "vfio_iommu_type1"],
        *(["insmod", f"/{_MODULES}/{sample}.ko"] for sample in ("mtty", "mdpy", "mbochs")),
        ["insmod", f"/{_MODULES}/labpci.ko", *machine.labpci_parameters()],
    )
    _script(
        root / "usr/local/sbin/lab-vgpud",
        ["insmod", f"/{_MODULES}/labgpu.ko", *machine.labgpu_parameters()],
    )
    _write(root / "etc/machine-id", uuid.uuid4().hex)
    _write(root / "etc/hostname", HOST)
    _write(root / "etc/hosts", f"127.0.0.1 localhost {HOST}")
    (root / "var/log/journal").mkdir(exist_ok=True)
    _container(root)
    subprocess.run(["chroot", root, "systemctl", "--quiet", "enable", *_UNITS], check=True)
    image = lab.results / "systemd.img"
    with image.open("wb") as blocks:
        blocks.truncate(_BYTES)
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", "-d", root, image], check=True)
    return image


def _container(root: Path) -> None:
    home = root / "var/lib/lxc" / CONTAINER
    shutil.rmtree(home, ignore_errors=True)
    lxc.fill(home / "rootfs")
    _write(home / "config", "\n".join(lxc.configuration(CONTAINER, "lxc.cgroup2.devices")))


def _script(path: Path, *commands: list[str]) -> None:
    _write(path, "\n".join(["#!/bin/sh", "set -e", *(shlex.join(command) for command in commands)]))
    path.chmod(0o755)


def _write(path: Path, text: str) -> None:
    path.write_text(text + "\n")
