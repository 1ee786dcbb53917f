"""A MariaDB for one test run: the distribution's server, its data and port our own."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
import tempfile
from pathlib import Path

from tests.real import packages
from tests.real.processes import Service, free_port, run

#: The programs alone: these packages start nothing and configure nothing.
PACKAGES = ("mariadb-server-core", "mariadb-client-core")
_SBIN = {"PATH": f"{os.environ['PATH']}{os.pathsep}/usr/sbin"}


def install() -> None:
    """Install the distribution's programs when they are not there, as root; else say what is missing and end the program."""
    if not shutil.which("mariadbd", path=_SBIN["PATH"]):
        packages.install(*PACKAGES)


class MariaDb:
    """The server; its data is new, and deleted with :meth:`remove`.

    The data is not below the checkout: a socket's path has room for 107 characters, and ``mariadb-install-db`` takes no space in one.
    """

    def __init__(self, directory: Path) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="cantle-mariadb-"))
        self._data = self._home / "data"
        self._socket = self._home / "socket"
        self._log = directory / "log"
        self._port = free_port()
        user = f"--user={getpass.getuser()}"
        words = ["mariadbd", "--no-defaults", user, f"--datadir={self._data}", f"--socket={self._socket}"]
        small = ["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=2"]
        place = ["--bind-address=127.0.0.1", f"--port={self._port}", "--skip-name-resolve"]
        self.service = Service("mariadb", [*words, *place, *small], self._log, env=_SBIN)

    def create(self) -> None:
        """Make the data directory."""
        user = f"--user={getpass.getuser()}"
        words = ["mariadb-install-db", "--no-defaults", user, f"--datadir={self._data}", "--skip-test-db"]
        run([*words, "--auth-root-authentication-method=normal"], self._log / "mariadb-install-db.log", env=_SBIN)

    def remove(self) -> None:
        """Delete its data."""
        shutil.rmtree(self._home)

    def answers(self) -> bool:
        """Whether it is up."""
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self._socket)) == 0

    def new_database(self, name: str, *, charset: str = "utf8mb4") -> str:
        """The URL of a new database, with a user of that name."""
        password = secrets.token_hex(8)
        self._sql(f"CREATE DATABASE {name} CHARACTER SET {charset}")
        self._sql(f"CREATE USER {name}@'127.0.0.1' IDENTIFIED BY '{password}'")
        self._sql(f"GRANT ALL ON {name}.* TO {name}@'127.0.0.1'")
        return f"mariadb://{name}:{password}@127.0.0.1:{self._port}/{name}"

    def _sql(self, statement: str) -> None:
        words = ["mariadb", "--no-defaults", f"--socket={self._socket}", "--user=root", f"--execute={statement}"]
        run(words, self._log / "mariadb-client.log")
