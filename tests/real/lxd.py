"""A real LXD, whose API Incus has: the distribution's, unpacked and not installed, with all that it keeps in a directory of the test."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import uuid
from pathlib import Path

from tests.real import packages
from tests.real.lxc import fill
from tests.real.places import STACK
from tests.real.processes import Service

from cantle.kernel.char_device import Node

#: Where the packages are unpacked, and those that no other test of this tier installs.
PLACE = STACK / "lxd"
_PACKAGES = ("lxd", "lxd-client", "libdqlite0", "libraft2", "squashfs-tools", "attr")
_READY = PLACE / ".unpacked"

#: Where the daemon keeps its files: in a mount namespace of the test, which has laid a directory of its own there.
HOME = Path("/var/lib/lxd")

#: Where it runs from there: liblxc calls it by this path, unquoted, so with a space in it, as a checkout may have, nothing would stop.
PROGRAM = HOME / ".program"

_METADATA = b"architecture: x86_64\ncreation_date: 1700000000\nproperties: {description: busybox}\n"
_OPEN = "if [ -c {0} ] && (exec 3<>{0}); then echo opened; else echo refused; fi"

_LAID = """
set -e
mkdir -p /var/lib/lxd
mount --bind "$0" /var/lib/lxd
mkdir /var/lib/lxd/.program
mount --bind "$1" /var/lib/lxd/.program
shift
exec "$@"
"""


def install() -> None:
    """Fetch it, as root, when it is not there; else say what is missing and end the program. Installed it would start by itself."""
    if not _READY.exists():
        shutil.rmtree(PLACE, ignore_errors=True)
        PLACE.mkdir(parents=True)
        packages.unpack(PLACE, *_PACKAGES)
        _READY.touch()


def laid(directory: Path, argv: list[str]) -> list[str]:
    """The command that runs this one where the directory is the daemon's. It needs a mount namespace of its own around it."""
    return ["sh", "-c", _LAID, str(directory), str(PLACE), *argv]


class Lxd:
    """A daemon, with an image of busybox.

    :param directory: of its log.
    """

    def __init__(self, directory: Path) -> None:
        self._env = {
            **os.environ,
            "LXD_DIR": str(HOME),
            "HOME": str(directory),  # where its client keeps what it knows
            "LD_LIBRARY_PATH": str(PROGRAM / "usr/lib" / f"{os.uname().machine}-linux-gnu"),
            "PATH": f"{PROGRAM / 'usr/bin'}:{os.environ['PATH']}",
        }
        self._directory = directory
        self._service = Service("lxd", [str(PROGRAM / "usr/bin/lxd"), "--group", "root"], directory, env=self._env)

    def start(self) -> None:
        """Until it answers, with the image ``lab``."""
        self._service.start(lambda: bool(self.run("query", "/1.0", check=False)))
        self.run("storage", "create", "default", "dir")
        self.run("profile", "device", "add", "default", "root", "disk", "path=/", "pool=default")
        image = self._directory / "image.tar"
        _make(image, self._directory / "rootfs")
        self.run("image", "import", str(image), "--alias", "lab")

    def stop(self) -> None:
        """It, and nothing that it started."""
        self._service.stop()

    def run(self, *words: str, check: bool = True) -> str:
        """What its client prints."""
        argv = [str(PROGRAM / "usr/bin/lxc"), *words]
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=self._env, timeout=60
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()


class Container:
    """One of its containers, which does not run yet: a privileged one, as where something is laid over /sys no other may have a /sys."""

    def __init__(self, lxd: Lxd) -> None:
        self._lxd = lxd
        self.name = f"test-{uuid.uuid4().hex[:8]}"
        lxd.run("init", "lab", self.name, "-c", "security.privileged=true")
        lxd.run("config", "set", self.name, "user.by-hand", "keep me")

    def do(self, verb: str, *words: str) -> str:
        """``lxc VERB NAME WORDS``."""
        return self._lxd.run(verb, self.name, *words)

    @property
    def state(self) -> str:
        """``RUNNING``, ``STOPPED``, ``FROZEN``."""
        return self._lxd.run("list", f"^{self.name}$", "-c", "s", "-f", "csv")

    @property
    def devices(self) -> str:
        """Those of its own, as YAML."""
        return self._lxd.run("config", "device", "show", self.name)

    def opens(self, node: Node) -> bool:
        """Whether open() of the node works inside."""
        said = self._lxd.run("exec", self.name, "--", "/bin/sh", "-c", _OPEN.format(node.path), check=False)
        assert said in ("opened", "refused"), said
        return said == "opened"

    def remove(self) -> None:
        """Stop it and delete all of it."""
        self._lxd.run("delete", "--force", self.name)


def _make(image: Path, rootfs: Path) -> None:
    fill(rootfs)
    (rootfs / "sbin").mkdir()
    (rootfs / "sbin/init").symlink_to("/bin/labinit")
    metadata = tarfile.TarInfo("metadata.yaml")
    metadata.size = len(_METADATA)
    with tarfile.open(image, "w") as archive:
        archive.addfile(metadata, io.BytesIO(_METADATA))
        archive.add(rootfs, "rootfs")
