"""Runs in a unit's sandbox: tries things, and prints those that worked. Standard library only."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _CLONE_NEWNET, _CLONE_NEWPID = 0x20000, 0x40000000, 0x20000000


def _write(place: str) -> None:
    path = Path(place) / "probe"
    path.write_text("x")
    path.unlink()


def _write_sys() -> None:
    """What it says already, so nothing changes."""
    path = Path("/sys/bus/pci/drivers_autoprobe")
    path.write_text(path.read_text())


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), name)


def _setns(kind: str, flag: int) -> None:
    with Path(f"/proc/1/ns/{kind}").open() as namespace:
        _call("setns", namespace.fileno(), flag)


def _suid() -> None:
    path = Path("/run/probe")
    path.write_text("x")
    try:
        path.chmod(0o4755)
    finally:
        path.unlink()


def _open(path: str | Path) -> None:
    os.close(os.open(path, os.O_RDWR))


def _mknod() -> None:
    os.mknod("/run/probe-null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    os.unlink("/run/probe-null")


TRIES: dict[str, Callable[[], object]] = {
    "read /etc/cantle/cantle.conf": lambda: Path("/etc/cantle/cantle.conf").read_text(),
    "read /proc/1": lambda: os.readlink("/proc/1/exe"),
    "read /root": lambda: os.listdir("/root/cantle"),
    "read the kernel's log": lambda: os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)),
    "write /sys": _write_sys,
    "write /run": lambda: _write("/run"),
    "write /etc": lambda: _write("/etc"),
    "write /usr": lambda: _write("/usr/lib"),
    "write /var/lib": lambda: _write("/var/lib"),
    "write /var/lib/cantle": lambda: _write("/var/lib/cantle"),
    "write /var/lib/lxc": lambda: _write("/var/lib/lxc"),
    "write /opt/cantle": lambda: _write("/opt/cantle"),
    "open a VFIO group": lambda: _open(*Path("/dev/vfio").glob("[0-9]*")),
    "open the disk": lambda: _open("/dev/vda"),
    "open the memory": lambda: _open("/dev/mem"),
    "open the processors' virtualization": lambda: _open("/dev/kvm"),
    "make a device node": _mknod,
    "load a module": lambda: subprocess.run(["modprobe", "dummy"], check=True, capture_output=True),
    "set the clock": lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()),
    "set the host's name": lambda: socket.sethostname(socket.gethostname()),
    "listen to the network's packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close(),
    "make a set-user-id program": _suid,
    "enter a network namespace": lambda: _setns("net", _CLONE_NEWNET),
    "make a process namespace": lambda: _call("unshare", _CLONE_NEWPID),
    "enter a mount namespace": lambda: _setns("mnt", _CLONE_NEWNS),
}


def works(attempt: Callable[[], object]) -> bool:
    """Whether it does, in a process of its own: a system call that is denied may end that."""
    child = os.fork()
    if child == 0:
        try:
            attempt()
        except (OSError, subprocess.CalledProcessError):
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    print(json.dumps([name for name, attempt in TRIES.items() if works(attempt)]), flush=True)
