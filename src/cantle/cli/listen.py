"""Where a server listens: the address, and the HTTP server behind it."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import Any, NamedTuple

from cheroot import wsgi

from cantle import errors
from cantle.cli.tls import Tls

#: Seconds that requests in flight get to finish when the server stops.
DRAIN = 3

#: Bytes of a request that are read before anything of it is looked at; cheroot itself has no limits. Bodies have closer ones in the
#: API, by what they are; this one is above all of them.
MOST_HEADER_BYTES = 64 << 10
MOST_BODY_BYTES = 32 << 20

#: Connections that may wait to be accepted. With cheroot's 5, the sixth of those who come at once is held up for a second or more: the
#: kernel drops its SYN, and it tries again.
MOST_ARRIVING = 128

#: Connections kept open between requests; they hold no thread, and go after ten idle seconds. With cheroot's 10, the eleventh client, or
#: the eleventh agent, connects anew for each request. Two servers' worth stays below the usual limit of 1,024 open files.
MOST_KEPT = 400


class Address(NamedTuple):
    """Host name or IP address, and port; port 0 lets the kernel choose one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """``127.0.0.1:6666``, ``[::1]:6666``, ``localhost:6666``.

        :raises BadConfig: ``bad-listen-address``.
        """
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise errors.BadConfig(
                "bad-listen-address",
                f"{text!r} is no address to listen on: write it as HOST:PORT, for example 127.0.0.1:6666.",
            )
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def url(self) -> str:
        """As a client writes it."""
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


class _Gateway(wsgi.Gateway_10):
    """Ends the connection after a request in chunks. cheroot reads what the application left of a body with a length, but what is left of
    chunks it would take for the next request."""

    def respond(self) -> None:
        """See the base class."""
        if self.req.chunked_read:
            self.req.close_connection = True
        super().respond()


class HttpServer:
    """A cheroot server: listens as soon as it is made, answers once it has its application.

    :param threads: how many requests are served at once.
    :param tls: its certificate; None: without TLS.
    :raises Conflict: ``port-in-use``.
    :raises BadConfig: ``cannot-listen``.
    """

    def __init__(self, address: Address, *, threads: int, name: str, tls: Tls | None = None) -> None:
        _check(address)
        self._server = wsgi.Server(
            (address.host, address.port),
            None,
            numthreads=threads,
            server_name=name,
            request_queue_size=MOST_ARRIVING,
            shutdown_timeout=DRAIN,
        )
        self._server.gateway = _Gateway
        self._server.ssl_adapter = tls
        self._server.keep_alive_conn_limit = MOST_KEPT
        self._server.max_request_header_size = MOST_HEADER_BYTES
        self._server.max_request_body_size = MOST_BODY_BYTES
        self._server.prepare()
        self.address = Address(address.host, self._server.bind_addr[1])
        self.url = self.address.url if tls is None else self.address.url.replace("http:", "https:", 1)

    def serve(self, application: Any) -> None:
        """Answer requests with this WSGI application until ``stop`` is called from another thread."""
        self._server.wsgi_app = application
        self._server.serve()

    def stop(self) -> None:
        """Take no more requests, let those in flight finish for a moment, and close."""
        try:
            self._server.stop()
        finally:
            self._server.requests.stop(DRAIN)  # a worker that is forgotten would keep the process from ending


def _check(address: Address) -> None:
    """Bind and let go: what the kernel says to it is precise, while cheroot tries every address of a name and gives up with a text."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            probe.listen()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise errors.Conflict(
                "port-in-use",
                f"Something listens on {address.host}:{address.port} already. Stop it, or choose another port: "
                f"--listen {address.host}:0 takes a free one.",
            ) from error
        raise errors.BadConfig(
            "cannot-listen",
            f"Cannot listen on {address.host}:{address.port}: {error.strerror}. Choose another --listen.",
        ) from error
