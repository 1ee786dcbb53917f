"""The real OpenStack Placement in a process of its own, with one compute node: hangs up, keeps silent or answers in vain when told to.

Whoever looks from outside says so in a header, and is always answered.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import uuid
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import requests
from keystoneauth1 import adapter, noauth, session
from tests import placement_service
from tests.chaos.points import Action, Board, Flag
from tests.chaos.receiver import Server
from tests.chaos.roles import HOST

from cantle.placement.client import PlacementClient

_EYES = "X-Chaos-Eyes"
_SENT = ("content-type", "openstack-api-version", "accept")
_FAULTS = {Action.ANSWER_409: 409, Action.ANSWER_500: 500, Action.ANSWER_503: 503}
#: As Placement writes them: whoever was slower, and nothing in particular.
_CODES = {409: "placement.concurrent_update"}


def make(file: Path) -> None:
    """A database with nothing in it but the compute node; in a process of its own, for Placement is never forked."""
    subprocess.run([sys.executable, "-m", "tests.chaos.placement", str(file)], check=True, capture_output=True)


def serve(port: int, file: Path, board: Board) -> None:
    """Listen for ever."""
    service = placement_service.kept_in(file)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            eyes = _EYES in self.headers
            away, number = (0, 0) if eyes else (board[Flag.PLACEMENT_AWAY], board[Flag.PLACEMENT_ANSWER])
            answer = list(Action)[number] if number else None
            if away:
                board[Flag.PLACEMENT_AWAY] = min(away + 1, 100)
            if answer is not None:
                board[Flag.PLACEMENT_ANSWER] = 0
            if answer in _FAULTS:
                self._say(_FAULTS[answer], _refusal(_FAULTS[answer]))
                return
            status, text = (0, b"") if away > 1 else self._ask(body)
            if away or answer is Action.SILENCE:
                self.close_connection = True
                if answer is Action.SILENCE:
                    self.connection.recv(1)  # until the caller has enough of it
                return
            self._say(status, text)

        do_GET = do_POST = do_PUT = do_DELETE = _answer

        def _ask(self, body: bytes) -> tuple[int, bytes]:
            headers = {name: self.headers[name] for name in _SENT if name in self.headers}
            inside = service.adapter(faulty=False)
            answer = inside.request(self.path, self.command, data=body or None, headers=headers, raise_exc=False)
            return answer.status_code, answer.content

        def _say(self, status: int, text: bytes) -> None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    with Server(("127.0.0.1", port), Handler) as server:
        server.serve_forever(0.05)


def _refusal(status: int) -> bytes:
    code = _CODES.get(status, "placement.undefined_code")
    return json.dumps({"errors": [{"status": status, "detail": "chaos", "code": code}]}).encode()


def look(port: int, method: str, path: str, body: Any = None) -> Any:
    """Ask it from outside; the JSON of its answer, None where it has no body.

    :raises OSError: it does not answer, or refuses.
    """
    headers = {"OpenStack-API-Version": "placement 1.39", _EYES: "1"}
    answer = requests.request(method, f"http://127.0.0.1:{port}{path}", json=body, headers=headers, timeout=10)
    answer.raise_for_status()
    return answer.json() if answer.content else None


def client(port: int) -> PlacementClient:
    """Ours, of whoever looks from outside."""
    made = session.Session(auth=noauth.NoAuth(endpoint=f"http://127.0.0.1:{port}"))
    return PlacementClient(adapter.Adapter(made, service_type="placement", additional_headers={_EYES: "1"}))


if __name__ == "__main__":
    placement_service.kept_in(Path(sys.argv[1])).call(
        "POST", "/resource_providers", {"name": HOST, "uuid": str(uuid.uuid4())}
    )
