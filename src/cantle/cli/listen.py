"""Where a server listens: the address, and the HTTP server behind it."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import threading
from http import HTTPStatus
from typing import Any, NamedTuple

from cheroot import wsgi
from cheroot.server import HTTPConnection, HTTPRequest

from cantle import errors
from cantle.api import fault, request_id
from cantle.cli import slow_client
from cantle.cli.slow_client import TimedBody
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

#: What cheroot says of itself, not of a request.
_FAULTS_OF_OURS = frozenset({500, 503})

#: The highest port there is.
MOST_PORT = 65535


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
        if not colon or not host or not port.isascii() or not port.isdigit():
            raise errors.BadConfig(
                "bad-listen-address",
                f"{text!r} is no address to listen on: write it as HOST:PORT, for example 127.0.0.1:6666.",
            )
        if len(port) > 5 or int(port) > MOST_PORT:
            raise errors.BadConfig(
                "bad-listen-address",
                f"{text!r} has the port {port[:20]}; ports go from 0 (any free one) to {MOST_PORT}.",
            )
        return cls(host, int(port))

    def __str__(self) -> str:
        """As it is written on the command line."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it.

        :raises BadConfig: ``cannot-listen``: it is a name without an address.
        """
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or all(ipaddress.ip_address(one).is_loopback for one in self._numbers())

    def _numbers(self) -> list[str]:
        """The addresses of a name."""
        try:
            found = socket.getaddrinfo(self.host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise errors.BadConfig(
                "cannot-listen", f"Cannot listen on {self}: the name {self.host} has no address ({why})."
            ) from error
        return [str(place[0]).partition("%")[0] for *_, place in found]

    @property
    def url(self) -> str:
        """As a client writes it."""
        return f"http://{self}"


class _Gateway(wsgi.Gateway_10):
    """Ends the connection after a request in chunks. cheroot reads what the application left of a body with a length, but what is left of
    chunks it would take for the next request."""

    def get_environ(self) -> dict[str, Any]:  # type: ignore[override]  # cheroot's stub says None
        """See the base class."""
        self.req.rfile = TimedBody(self.req.rfile, self.req.server.watch, self.req.conn.socket)
        environ: dict[str, Any] = super().get_environ()  # type: ignore[no-untyped-call]
        return environ

    def respond(self) -> None:
        """See the base class."""
        if self.req.chunked_read:
            self.req.close_connection = True
        super().respond()


class _RequestLine:
    """The head of a request up to its first line. Clients that put a path behind an address that ends with a slash ask for
    ``//v2/devices``, in which cheroot sees the host ``v2``; gunicorn takes it for the path it was meant to be."""

    def __init__(self, head: Any) -> None:
        self._head = head

    def readline(self) -> bytes:
        """The next line, with one slash where its path begins."""
        line: bytes = self._head.readline()
        method, space, rest = line.partition(b" ")
        return method + space + b"/" + rest.lstrip(b"/") if rest.startswith(b"//") else line


class _Request(HTTPRequest):
    """A request whose head does not take for ever, and which is refused in the words of the API even before that sees it."""

    def parse_request(self) -> None:
        """See the base class."""
        with self.server.watch.reading(self.conn.socket, slow_client.HEAD_S):
            super().parse_request()

    def read_request_line(self) -> bool:
        """See the base class."""
        head = self.rfile
        self.rfile = _RequestLine(head)
        try:
            return bool(super().read_request_line())  # type: ignore[no-untyped-call]
        finally:
            self.rfile = head

    def simple_response(self, status: str | int, msg: str = "") -> None:
        """See the base class. It is called where nothing of an answer was sent yet, and the connection ends with it."""
        number = int(str(status)[:3])
        if number in _FAULTS_OF_OURS:
            super().simple_response(status, msg)
            return
        said = msg or HTTPStatus(number).phrase
        error = errors.BadRequest(
            "bad-request", f"This HTTP request cannot be read: {said.rstrip('.')}. Mend the client, or the proxy."
        )
        error.status = number
        path = getattr(self, "uri", b"").decode("latin-1")
        body, content_type = fault.render(path, error, request_id.assign({}))
        lines = {
            **fault.headers(error),
            "Content-Type": content_type,
            "Content-Length": len(body),
            "Connection": "close",
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.close_connection = True
        with contextlib.suppress(OSError):  # it is gone
            self.conn.wfile.write(
                f"HTTP/1.1 {fault.status_line(number)}\r\n{head}\r\n".encode("latin-1")
                + (b"" if getattr(self, "method", b"") == b"HEAD" else body)
            )


class Connection(HTTPConnection):
    """What a client that went away was not told goes with it.

    cheroot leaves it in a buffer, which tries to send it once more at its own end, to a closed socket. Since Python 3.13 that is a
    traceback on standard error.
    """

    def close(self) -> None:
        """See the base class."""
        super().close()
        self.wfile.raw.close()


class _Connection(Connection):
    """A connection of such requests."""

    RequestHandlerClass = _Request


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
        self._server.ConnectionClass = _Connection
        self._watch = slow_client.Watch()
        self._server.watch = self._watch  # type: ignore[attr-defined]  # our own requests look there
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
        threading.Thread(target=self._watch.run, name="slow clients", daemon=True).start()
        self._server.serve()

    def stop(self) -> None:
        """Take no more requests, let those in flight finish for a moment, and close."""
        self._watch.stop()
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
                f"Something listens on {address} already. Stop it, or choose another port: "
                f"--listen {address._replace(port=0)} takes a free one.",
            ) from error
        raise errors.BadConfig(
            "cannot-listen",
            f"Cannot listen on {address}: {error.strerror}. Choose another --listen.",
        ) from error
