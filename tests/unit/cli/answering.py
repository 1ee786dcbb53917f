"""A small HTTP server that answers as told: for what a real Cantle server never does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Answer(NamedTuple):
    """Status, body and headers of one answer."""

    status: int = 200
    body: bytes = b"{}"
    headers: tuple[tuple[str, str], ...] = ()


class Request(NamedTuple):
    """What was asked."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]


@contextmanager
def answering(answer: Callable[[Request], Answer]) -> Iterator[str]:
    """The URL of a server that answers every request with what the function returns."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            given = answer(Request(self.command, self.path, body, dict(self.headers)))
            self.send_response(given.status)
            for name, value in given.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(given.body)))
            self.end_headers()
            self.wfile.write(given.body)

        do_GET = do_POST = do_DELETE = _answer

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
