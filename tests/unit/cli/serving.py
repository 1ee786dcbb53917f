"""``cantle serve`` as a process of its own, as an operator starts it."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.databases import sqlite_url

CANTLE = [sys.executable, "-m", "cantle.cli.main"]
CONFIG = "[gpu_devices]\nenabled_vgpu_types = nvidia-223\n[vgpu_nvidia-223]\ndevice_addresses = 0000:af:00.0\n"

#: Seconds until a test gives up; far more than anything takes.
PATIENCE = 60.0


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class Serving(NamedTuple):
    """A running server."""

    process: subprocess.Popen[str]
    url: str
    state: Path

    def cantle(self, *arguments: str) -> Done:
        """Run a command against it."""
        return cantle(*arguments, CANTLE_URL=self.url)

    def json(self, *arguments: str) -> Any:
        """The document a command prints; it must succeed."""
        done = self.cantle(*arguments, "-o", "json")
        assert done.code == 0, done
        return json.loads(done.out)

    def await_capacity(self) -> list[dict[str, Any]]:
        """The capacity once the simulated host has reported it."""
        deadline = time.monotonic() + PATIENCE
        while not (rows := self.json("capacity")):
            assert time.monotonic() < deadline, "the host never reported"
        return list(rows)

    def await_hosts(self, *names: str) -> None:
        """Wait until these hosts have reported cards that can be lent."""
        deadline = time.monotonic() + PATIENCE
        while not set(names) <= {row["hostname"] for row in self.json("capacity")}:
            assert time.monotonic() < deadline, "a host never reported"


def cantle(*arguments: str, **environment: str) -> Done:
    """Run one command to its end."""
    done = subprocess.run(
        [*CANTLE, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
        env=clean(environment),
    )
    return Done(done.returncode, done.stdout, done.stderr)


def clean(extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without what would lead a command elsewhere."""
    return {**{key: value for key, value in os.environ.items() if not key.startswith("CANTLE_")}, **extra}


def serve_command(place: Path, *more: str, host: str = "t4") -> list[str]:
    """The command line of a server with a simulated host and state below ``place``, on any free port."""
    config = place / "cantle.conf"
    config.write_text(CONFIG, encoding="utf-8")
    command = [*CANTLE, "serve", "--simulate", host, "--simulated-only", "--listen", "127.0.0.1:0"]
    return [*command, "--state-dir", str(place / "state"), "--config-file", str(config), *more]


@contextmanager
def serving(place: Path, *more: str, host: str = "t4", **environment: str) -> Iterator[Serving]:
    """A server that is ready, until the block ends. ``host`` is the simulated one's name or description."""
    command = serve_command(place, *more, host=host)
    _make_database(place / "state")
    with (
        (place / "serve.log").open("a") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=clean(environment)) as process,
    ):
        try:
            yield Serving(process, ready(process), place / "state")
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise


def _make_database(state: Path) -> None:
    """A first start makes it by itself, which costs half a second: the tests of the demo and of starts in odd places have it so."""
    if not state.exists():
        state.mkdir(mode=0o700)
        sqlite_url(state)
        (state / "cantle.db").chmod(0o600)


def ready(process: subprocess.Popen[str]) -> str:
    """The address in the line that says the server is ready."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        assert selector.select(PATIENCE), "the server says nothing"
    line = process.stdout.readline()
    words = line.split()
    assert words[:4] == ["cantle", "is", "serving", "on"], line
    return words[4]


def refused(place: Path, *more: str) -> Done:
    """How a start ends that is not to succeed."""
    command = serve_command(place, *more)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=clean({}))
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return Done(done.returncode, done.stdout, done.stderr)
