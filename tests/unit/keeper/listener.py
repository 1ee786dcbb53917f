"""A receiver of events on a real socket, which answers as the test says: with a status, late, half-way, or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: What becomes of a request: status, body, extra headers; or a word for what is no answer.
Answer = tuple[int, Any, dict[str, str]] | str

CLOSE = "close"
"""The connection is closed without a word."""
HANG = "hang"
"""Nothing is said until the listener is closed."""
DRIP = "drip"
"""A header comes byte by byte and never ends."""


@dataclass
class Request:
    """What came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


@dataclass
class Listener:
    """Answers requests with ``answers`` in turn, then with ``always``; ``always`` may be a function of the request."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    always: Answer | Callable[[Request], Answer] = (200, {"events": []}, {})
    requests: list[Request] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, request: Request) -> Answer:
        """Remember a request; what to answer."""
        with self.lock:
            self.requests.append(request)
            if self.answers:
                return self.answers.pop(0)
        return self.always(request) if callable(self.always) else self.always

    @property
    def events(self) -> list[dict[str, Any]]:
        """All that Nova was told, in order."""
        return [event for request in self.requests for event in request.json["events"]]

    @property
    def statuses(self) -> list[str]:
        """The statuses of these."""
        return [event["status"] for event in self.events]


@contextmanager
def listening() -> Iterator[Listener]:
    """A listener on a free port."""
    listener = Listener()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = listener.take(Request(self.path, dict(self.headers.items()), body))
            if isinstance(answer, str):
                self._misbehave(answer)
                return
            status, content, headers = answer
            encoded = json.dumps(content).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Type": "application/json"}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            with suppress(OSError):  # whoever asked has seen enough
                self.wfile.write(encoded)

        def _misbehave(self, how: str) -> None:
            self.close_connection = True
            if how == HANG:
                listener.over.wait(30)
            elif how == DRIP:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                with suppress(OSError):
                    while not listener.over.wait(0.02):
                        self.wfile.write(b"x")

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    listener.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield listener
    finally:
        listener.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
