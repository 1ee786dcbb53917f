"""Databases for measurements: files, or a server of that kind that runs for this measurement."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
from sqlalchemy import URL, make_url
from tests.postgres import Postgres
from tests.real.mariadb import MariaDb
from tests.real.processes import running

KINDS = ("sqlite", "postgresql", "mariadb")


class Sqlite:
    """Databases in files of a directory."""

    pid = None

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = count()

    def new(self) -> str:
        """The URL of one that is not there yet."""
        return f"sqlite:///{self._directory / f'{next(self._numbers)}.db'}"

    def copy(self, url: str) -> str:
        """The URL of a copy; nobody has the original open."""
        copied = self.new()
        shutil.copy(url.removeprefix("sqlite:///"), copied.removeprefix("sqlite:///"))
        return copied


class PostgresServer:
    """Databases of a PostgreSQL."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        with psycopg.connect(server.url("postgres")) as connection:
            found = connection.execute("SHOW data_directory").fetchone()
        assert found is not None
        #: Of the process that starts all others.
        self.pid = int(Path(found[0], "postmaster.pid").read_text(encoding="utf-8").split()[0])

    def new(self) -> str:
        """The URL of an empty one."""
        return self._server.new_database()

    def copy(self, url: str) -> str:
        """The URL of a copy; nobody has the original open."""
        return self._server.new_database(url.partition("@/")[2].partition("?")[0])


class MariaDbServer:
    """Databases of a MariaDB that runs."""

    def __init__(self, server: MariaDb) -> None:
        self.server = server
        self._numbers = count()
        self.pid = server.service.pid

    def new(self) -> str:
        """The URL of an empty one."""
        return self.server.new_database(f"bench{next(self._numbers)}")

    def copy(self, url: str) -> str:
        """The URL of a copy."""
        copied = self.new()
        source, target = make_url(url), make_url(copied)
        dump = _client("mariadb-dump", source, "--single-transaction", source.database or "")
        with subprocess.Popen(dump, stdout=subprocess.PIPE) as dumping:
            subprocess.run(_client("mariadb", target, target.database or ""), stdin=dumping.stdout, check=True)
        return copied


def _client(program: str, url: URL, *words: str) -> list[str]:
    who = [f"--host={url.host}", f"--port={url.port}", f"--user={url.username}", f"--password={url.password}"]
    return [program, "--no-defaults", *who, *words]


Maker = Sqlite | PostgresServer | MariaDbServer


@contextmanager
def databases(kind: str) -> Iterator[Maker]:
    """Who makes databases of that kind."""
    if kind == "postgresql":
        yield PostgresServer(Postgres.shared())
        return
    with tempfile.TemporaryDirectory(prefix="cantle-bench-") as scratch:
        if kind == "sqlite":
            yield Sqlite(Path(scratch))
            return
        server = MariaDb(Path(scratch))
        server.create()
        try:
            with running(server.service, server.answers):
                yield MariaDbServer(server)
        finally:
            server.remove()
