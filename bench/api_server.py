"""The servers that are compared, each in a process of its own: Cantle's own, and one that replays the SQL through the bare driver."""

from __future__ import annotations

import multiprocessing
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from bench.api_script import Replayer, Script

from cantle.api.app import public_app
from cantle.api.settings import Settings
from cantle.cli.listen import Address, HttpServer
from cantle.cli.serve import PUBLIC_THREADS
from cantle.store.database import Database

#: What a server answered: status line and body.
Answer = tuple[str, bytes]

_CONSTANT: Answer = ("200 OK", b'{"arqs": []}')


class Server:
    """A server, or a part of one, in another process. ``told`` is what it said when it was ready: its port, as a rule."""

    def __init__(self, serve: Callable[..., None], *arguments: Any) -> None:
        ours, theirs = multiprocessing.Pipe()
        spawn = multiprocessing.get_context("spawn")
        self._process = spawn.Process(target=serve, args=(theirs, *arguments), daemon=True)
        self._process.start()
        self._pipe = ours
        self.told: Any = ours.recv()

    @property
    def port(self) -> int:
        """Where it answers."""
        assert isinstance(self.told, int)
        return self.told

    def cpu(self) -> float:
        """Seconds of CPU it has used, user and system, all threads, as it knows itself."""
        self._pipe.send("cpu")
        used: float = self._pipe.recv()
        return used

    def stop(self) -> None:
        """End it."""
        self._pipe.send("stop")
        self._process.join(10)


@contextmanager
def running(serve: Callable[..., None], *arguments: Any) -> Iterator[Server]:
    """The server while the block runs."""
    server = Server(serve, *arguments)
    try:
        yield server
    finally:
        server.stop()


def serve_cantle(pipe: Pipe, url: str) -> None:
    """The clients' half of ``cantle serve``: its application, its HTTP server, its number of threads."""
    db = Database.open(url)
    _serve(pipe, public_app(db, Settings()))
    db.close()


def serve_floor(pipe: Pipe, url: str, scripts: Mapping[str, tuple[Script, Answer]]) -> None:
    """The same HTTP server; each request is answered with what was answered when its SQL was recorded, after that SQL was sent. A
    request without a script gets a constant answer."""
    replayer = Replayer(url)

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        script, (status, body) = scripts.get(environ["HTTP_X_BENCH"], ([], _CONSTANT))
        replayer.replay(script)
        headers = [] if status.startswith("204") else [("Content-Length", str(len(body)))]
        start_response(status, [*headers, ("Content-Type", "application/json")])
        return [body]

    _serve(pipe, application)


def _serve(pipe: Pipe, application: Any) -> None:
    server = HttpServer(Address("127.0.0.1", 0), threads=PUBLIC_THREADS, name="bench")
    thread = threading.Thread(target=server.serve, args=(application,))
    thread.start()
    pipe.send(server.address.port)
    obey(pipe)
    server.stop()
    thread.join()


def obey(pipe: Pipe) -> None:
    """Answer questions until told to stop."""
    while pipe.recv() != "stop":
        pipe.send(time.process_time())


def machine() -> str:
    """What the figures were taken on. With more at work than there are cores, times are those of a crowd; ratios and CPU say more."""
    python = platform.python_version()
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {python}, {time.strftime('%Y-%m-%d')}"


def cpu_below(pid: int) -> float:
    """Seconds of CPU of a process and all below it, user and system, all threads. Of those that have ended, only whole ticks."""
    place = Path(f"/proc/{pid}")
    try:
        children = [
            child for task in place.glob("task/*/children") for child in task.read_text(encoding="ascii").split()
        ]
        # proc(5): after the command in parentheses, the 14th and 15th are cutime and cstime, in ticks.
        ended = (place / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[13:15]
        own = time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid(3) makes the number of a process's clock
    except OSError:
        return 0.0  # it has ended meanwhile: its parent counts it
    ticks = sum(int(one) for one in ended)
    return own + ticks / os.sysconf("SC_CLK_TCK") + sum(cpu_below(int(child)) for child in children)
