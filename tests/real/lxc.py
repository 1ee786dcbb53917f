"""Real LXC containers with nothing in them but busybox, and stand-ins for cards: character devices that every kernel has."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.real import packages

from cantle.attach.lxc import CONTAINERS
from cantle.kernel import container
from cantle.kernel.char_device import Node
from cantle.kernel.root import Root

MACHINE = Root("/")
HOME = Path("/") / CONTAINERS

#: Where an unprivileged container's root is, outside.
SHIFT = 100_000

_APPLETS = ("sh", "cat", "sleep", "ls", "dd", "test", "mknod")
_INIT = "#!/bin/sh\ntrap 'exit 0' TERM PWR\nwhile :; do sleep 1; done\n"
_OPEN = "if [ -c {0} ] && (exec 3<>{0}); then echo opened; else echo refused; fi"


def install() -> None:
    """Install liblxc's tools when they are not there, as root; else say what is missing and end the program."""
    if not shutil.which("lxc-start") or not Path("/bin/busybox").exists():
        packages.install("lxc", "busybox-static")


def fill(rootfs: Path) -> None:
    """Make a container's files."""
    for name in ("bin", "dev", "proc", "sys", "tmp"):
        (rootfs / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", rootfs / "bin/busybox")
    for applet in _APPLETS:
        (rootfs / "bin" / applet).symlink_to("busybox")
    (rootfs / "bin/labinit").write_text(_INIT)
    (rootfs / "bin/labinit").chmod(0o755)


def configuration(name: str, key: str) -> list[str]:
    """The configuration of a container that may open nothing of the host's; ``key`` is that of its kind of cgroup."""
    return [
        f"lxc.uts.name = {name}",
        f"lxc.rootfs.path = dir:{HOME}/{name}/rootfs",
        "lxc.net.0.type = empty",
        "lxc.apparmor.profile = unconfined",
        "lxc.autodev = 1",
        "lxc.mount.auto = proc:rw",
        "lxc.init.cmd = /bin/labinit",
        f"{key}.deny = a",
        *(f"{key}.allow = c {number} rwm" for number in ("1:3", "1:5", "5:*", "136:*")),
    ]


class Container:
    """One container. Its configuration has lines by hand, which must be there at the end."""

    def __init__(self, *, privileged: bool) -> None:
        self.name = f"cantle-test-{uuid.uuid4().hex[:8]}"
        self.home = HOME / self.name
        self.config = self.home / "config"
        fill(self.home / "rootfs")
        self.config.write_text(self._configuration(privileged=privileged))
        if not privileged:
            for path in (self.home / "rootfs", *(self.home / "rootfs").rglob("*")):
                os.lchown(path, SHIFT, SHIFT)
            self.home.chmod(0o755)

    def _configuration(self, *, privileged: bool) -> str:
        lines = ["# by hand: keep me", *configuration(self.name, container.layout(MACHINE))]
        if not privileged:
            lines += [f"lxc.idmap = {kind} 0 {SHIFT} 65536" for kind in ("u", "g")]
        return "\n".join(lines)  # and no newline at the end, as people leave it

    def start(self) -> None:
        """Start it, and wait until its init runs."""
        log = self.home / "log"
        done = subprocess.run(
            ["lxc-start", "-n", self.name, "-o", str(log), "-l", "DEBUG"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr + (log.read_text()[-3000:] if log.exists() else "")
        subprocess.run(["lxc-wait", "-n", self.name, "-s", "RUNNING", "-t", "20"], check=True)

    def stop(self) -> None:
        """Kill it; that it does not run is no error."""
        subprocess.run(["lxc-stop", "-n", self.name, "-k"], capture_output=True, check=False)
        subprocess.run(["lxc-wait", "-n", self.name, "-s", "STOPPED", "-t", "20"], check=True)

    def run(self, script: str) -> str:
        """What a shell in it says."""
        argv = ["lxc-attach", "-n", self.name, "--clear-env", "--", "/bin/sh", "-c", script]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=30)
        return done.stdout.strip()  # liblxc complains of a container without /dev/null beside it

    def opens(self, node: Node) -> bool:
        """Whether open() of the node works inside. That there is a character device is part of it: a shell would make a plain file."""
        said = self.run(_OPEN.format(node.path))
        assert said in ("opened", "refused"), said
        return said == "opened"

    def sees(self, directory: str) -> set[str]:
        """The names in a directory inside."""
        return set(self.run(f"ls {directory}").split())

    @contextmanager
    def holding(self, node: Node) -> Iterator[None]:
        """A program inside has the node open meanwhile."""
        script = f"exec 3<>{node.path}; echo $$; exec sleep 600"
        argv = ["lxc-attach", "-n", self.name, "--clear-env", "--", "/bin/sh", "-c", script]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            pid = process.stdout.readline().strip()
            assert pid.isdigit()
            try:
                yield
            finally:
                self.run(f"kill -9 {pid}")
                process.wait(timeout=20)

    def remove(self) -> None:
        """Stop it and delete all of it."""
        self.stop()
        shutil.rmtree(self.home)


class Card:
    """A character device below /dev that stands for a card: another device's number under a name of its own, open to all as NVIDIA's is."""

    def __init__(self, likeness: str) -> None:
        number = os.stat(likeness).st_rdev
        self.node = Node(f"/dev/cantle-test-{uuid.uuid4().hex[:8]}", os.major(number), os.minor(number))
        os.mknod(self.node.path, stat.S_IFCHR | 0o666, number)
        os.chmod(self.node.path, 0o666)  # noqa: S103 - as NVIDIA's are; the umask took it away

    def remove(self) -> None:
        """Delete the node."""
        os.unlink(self.node.path)
