"""A keeper in a process of its own and the real Placement over HTTP: one of the two is killed or cut off at a request, and it ends well.

The unit tests of `test_publisher` have each request and each commit; here a few of them, with processes and sockets.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from keystoneauth1.exceptions import ClientException
from tests.databases import database
from tests.placement_service import Placement, Timeout
from tests.real.processes import wait_until
from tests.unit.engine.cloud import ADMIN, make_profile, t4, whole
from tests.unit.placement.cloud import AF, Cloud

from cantle.engine.lease import create_lease

CARD = "compute-1_0000:3b:00.0 PGPU"
SENT = ("content-type", "openstack-api-version", "accept")


@contextmanager
def proxy(service: Placement) -> Iterator[str]:
    """Placement's URL over HTTP, its faults in between: where one says silence, the connection ends without an answer."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name: self.headers[name] for name in SENT if name in self.headers}
            with suppress(ClientException, BrokenPipeError, ConnectionResetError):
                answer = service.adapter().request(
                    self.path, self.command, data=body or None, headers=headers, raise_exc=False
                )
                self.send_response(answer.status_code)
                self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

        do_GET = do_POST = do_PUT = do_DELETE = _answer

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class KeeperProcess:
    """It, started again when it was killed."""

    def __init__(self, file: Path) -> None:
        self._argv = [sys.executable, "-m", "tests.unit.placement.keeper_process", str(file)]
        self._process = subprocess.Popen(self._argv)

    def kill(self) -> None:
        """SIGKILL, and another one at once."""
        self.end()
        self._process = subprocess.Popen(self._argv)

    def end(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()


def happens(service: Placement, keeper: KeeperProcess, number: int, what: str) -> None:
    """At the request of that number from here on: the keeper is killed, or Placement is away for three requests, the first of which it
    may have followed."""
    service.faults.clear()
    if what == "cut":
        service.faults.at = {number: Timeout(), number + 1: Timeout(), number + 2: Timeout()}
    elif what == "cut-answer":
        service.faults.at = {number: Timeout(after=True), number + 1: Timeout(), number + 2: Timeout()}
    else:
        counted = iter(range(1, 1000))

        def kill(_method: str, _path: str) -> None:
            if next(counted) == number:
                keeper.kill()

        service.faults.before = kill


def settled(cloud: Cloud, shall: dict[str, tuple[int, int]]) -> bool:
    """Whether that is in Placement, and the keeper knows it."""
    states = cloud.states()
    return cloud.shown() == shall and [state.code for state in states] == [None] and states[0].synced_at is not None


@pytest.mark.parametrize(
    ("number", "what"),
    [(1, "cut"), (2, "kill"), (3, "cut-answer"), (4, "kill"), (5, "cut"), (6, "kill"), (7, "cut-answer"), (8, "cut")],
)
def test_publishing_ends_well_whoever_dies_or_is_cut_off(
    service: Placement, tmp_path: Path, number: int, what: str
) -> None:
    with database("sqlite", tmp_path) as db, proxy(service) as url:
        cloud = Cloud(db, service)
        make_profile(db)
        cloud.host.report(t4(4), whole())
        file = tmp_path / "cantle.conf"
        file.write_text(
            f"[database]\nconnection = sqlite:///{tmp_path / 'cantle.db'}\n"
            f"[placement]\nauth_type = none\nendpoint_override = {url}\n"
        )
        keeper = KeeperProcess(file)
        try:
            happens(service, keeper, number, what)
            wait_until("both cards are published", lambda: settled(cloud, {AF: (4, 0), CARD: (1, 0)}), seconds=60)
            assert len(service.faults.sent) >= number, "the request was come to"
            happens(service, keeper, 1, what)
            create_lease(db, ADMIN, profile_name="vgpu", workload="vm1", count=1)
            wait_until("what is lent is reserved", lambda: settled(cloud, {AF: (4, 1), CARD: (1, 0)}), seconds=60)
        finally:
            service.faults.clear()
            keeper.end()
    providers = service.call("GET", "/resource_providers")["resource_providers"]
    assert len(providers) == 3, "the compute node and two cards; nothing was made twice or left behind"
