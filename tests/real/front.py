"""A front before several servers: what a load balancer does for this test, in a hundred lines.

It connects each client to one of the servers in turn; one that refuses the connection is passed over and the next one tried, as nginx does.
Once a byte was sent nothing is tried again: the client sees the connection end, and what became of its request is unknown.
A server that is taken out gets no new connections; those it has go on.
"""

from __future__ import annotations

import contextlib
import itertools
import selectors
import socket
import threading


class Front:
    """Listens on a port of loopback while the block runs. Servers are ports of loopback too."""

    def __init__(self, *ports: int) -> None:
        self._in = list(ports)
        self._turn = itertools.count()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Front:
        threading.Thread(target=self._accept, name="front", daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def take_out(self, port: int) -> None:
        """No new connections to that server."""
        with self._lock:
            self._in.remove(port)

    def put_in(self, port: int) -> None:
        """New connections to that server, too."""
        with self._lock:
            self._in.append(port)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            server = self._connect()
            if server is not None:
                with server:
                    _relay(client, server)

    def _connect(self) -> socket.socket | None:
        with self._lock:
            ports, turn = list(self._in), next(self._turn)
        for number in range(len(ports)):
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", ports[(turn + number) % len(ports)]), timeout=5)
        return None


def _relay(client: socket.socket, server: socket.socket) -> None:
    """Bytes both ways until the server hangs up."""
    other = {client: server, server: client}
    with selectors.DefaultSelector() as selector, contextlib.suppress(OSError):
        for one in other:
            one.settimeout(120)
            selector.register(one, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(120):
                source = key.fileobj
                assert isinstance(source, socket.socket)
                data = source.recv(65536)
                if data:
                    other[source].sendall(data)
                elif source is server:
                    return
                else:
                    selector.unregister(source)
                    server.shutdown(socket.SHUT_WR)
