"""A network service with nothing in it: every collection of its API is empty.

Nova asks for ports and security groups of a server even when that was made with no network; this answers that, and nothing more.
"""

from __future__ import annotations

import http.server
import json
import threading
from types import TracebackType


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """``/`` lists the version, ``/v2.0`` is empty, ``/v2.0/THINGS`` has no things; a single thing is not found."""
        here = f"http://{self.headers['Host']}"
        match [part for part in self.path.partition("?")[0].split("/") if part]:
            case []:
                links = [{"rel": "self", "href": f"{here}/v2.0/"}]
                self._answer(200, {"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]})
            case ["v2.0"]:
                self._answer(200, {"resources": []})
            case ["v2.0", things]:
                self._answer(200, {things.removesuffix(".json").replace("-", "_"): []})
            case _:
                error = {"type": "NotFound", "message": "there is no network here", "detail": ""}
                self._answer(404, {"NeutronError": error})

    def _answer(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class NoNetwork:
    """Serves from a thread of this process while the block lasts."""

    def __init__(self) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> NoNetwork:
        threading.Thread(target=self._server.serve_forever, name="no-network", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
