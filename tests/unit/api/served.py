"""The clients' application behind a real HTTP server on loopback, with one host that has reported."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cheroot.wsgi import PathInfoDispatcher, Server
from tests.stories.hosts import HOSTS
from tests.stories.world import World, fresh_database

from cantle.api.app import public_app
from cantle.api.frame import WsgiApp
from cantle.api.settings import Settings
from cantle.cli.listen import Connection


@contextmanager
def http_server(app: WsgiApp) -> Iterator[str]:
    """Serve ``app`` while the block runs; yields its URL."""
    server = Server(("127.0.0.1", 0), app, numthreads=4)
    server.ConnectionClass = Connection
    server.expiration_interval = 0.02  # how soon it notices that it shall stop
    server.prepare()
    thread = threading.Thread(target=server.serve, name="test-http-server")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.bind_addr[1]}"
    finally:
        server.stop()
        thread.join(10)


@contextmanager
def served(directory: Path, settings: Settings | None = None, *, mount: str = "") -> Iterator[tuple[str, World]]:
    """The application over a fresh database, at the path ``mount`` of its server; yields its URL, and the world to play the host's
    agent in."""
    db = fresh_database(directory)
    world = World(db)
    for host, report in HOSTS["two-cards"].items():
        world.call("PUT", f"/v1/hosts/{host}/inventory", body=report, agent=True)
    try:
        app: Any = public_app(db, settings or Settings())
        if mount:
            app = PathInfoDispatcher({mount: app})  # type: ignore[no-untyped-call]
        with http_server(app) as url:
            yield f"{url}{mount}", world
    finally:
        db.close()
