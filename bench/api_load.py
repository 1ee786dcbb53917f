"""Clients for measurements: many keep-alive connections in one thread, so that the clients cost as little as they can."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. ``name`` tells a replaying server which script belongs to it; ``head`` has more headers, each with its CRLF."""

    method: str
    path: str
    body: bytes = b""
    name: str = ""
    head: str = ""

    def encoded(self) -> bytes:
        """As it goes over the wire."""
        head = (
            f"{self.method} {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nOpenStack-API-Version: accelerator 2.1\r\n"
            f"{self.head}X-Bench: {self.name}\r\nContent-Type: application/json\r\nContent-Length: {len(self.body)}\r\n\r\n"
        )
        return head.encode() + self.body


@dataclass(slots=True)
class Outcome:
    """What became of a batch: seconds over all, seconds of each request, and how many had another status than 2xx."""

    seconds: float
    latencies: list[float] = field(default_factory=list)
    refused: int = 0

    @property
    def rate(self) -> float:
        """Requests per second."""
        return len(self.latencies) / self.seconds


class Connection:
    """One client: it sends a request, and takes the answer as it comes. When the server hangs up after an answer, the next request
    begins with connecting anew."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._answer = b""
        self._hung_up = False
        self.sent_at = 0.0
        self.socket = self._connected()

    def send(self, request: bytes) -> None:
        """The next request; the answer to the one before has come. `socket` may be another one afterwards."""
        self._answer = b""
        self.sent_at = time.perf_counter()
        if self._hung_up:
            self.socket.close()
            self.socket = self._connected()
        self.socket.sendall(request)

    def receive(self) -> tuple[int, bytes] | None:
        """Status and body once all of the answer is there; None until then."""
        part = self.socket.recv(1 << 20)
        if not part:
            raise SystemExit(f"bench: the server closed the connection after {self._answer!r}")
        self._answer += part
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not end or len(body) < _length(head):
            return None
        self._hung_up = b"\r\nConnection: close" in head
        return int(head[9:12]), body

    def call(self, request: Request) -> tuple[int, bytes]:
        """Send and wait for the answer."""
        self.send(request.encoded())
        while (answer := self.receive()) is None:
            pass
        return answer

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def _connected(self) -> socket.socket:
        connected = socket.create_connection(("127.0.0.1", self._port))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        if line[:15].lower() == b"content-length:":
            return int(line[15:])
    return 0


def drive(port: int, clients: int, requests: Sequence[Request]) -> Outcome:
    """Send all requests, ``clients`` of them at a time, each client its next as soon as it has an answer."""
    waiting = [request.encoded() for request in reversed(requests)]
    outcome = Outcome(0.0)
    with selectors.DefaultSelector() as selector:
        connections = [Connection(port) for _ in range(min(clients, len(waiting)))]
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        started = time.perf_counter()
        for connection in connections:
            connection.send(waiting.pop())
        open_requests = len(connections)
        while open_requests:
            for key, _ in selector.select():
                connection = key.data
                answer = connection.receive()
                if answer is None:
                    continue
                outcome.latencies.append(time.perf_counter() - connection.sent_at)
                outcome.refused += not 200 <= answer[0] < 300
                selector.unregister(connection.socket)
                if waiting:
                    connection.send(waiting.pop())
                    selector.register(connection.socket, selectors.EVENT_READ, connection)
                else:
                    open_requests -= 1
        outcome.seconds = time.perf_counter() - started
        for connection in connections:
            connection.close()
    return outcome
