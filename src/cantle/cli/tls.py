"""TLS of the embedded HTTP server: its certificate, and what it asks of clients."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
from pathlib import Path
from typing import Any

from cheroot.makefile import StreamReader, StreamWriter
from cheroot.ssl import Adapter

from cantle import errors

_log = logging.getLogger(__name__)


class _Socket(ssl.SSLSocket):
    """A connection that just ends where TLS fails: somebody without a certificate, or who speaks no TLS. The server would log ninety
    lines for each of them, and answer them in plain text."""

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        """See the base class."""
        try:
            return super().recv_into(buffer, nbytes, flags)
        except ssl.SSLError as error:
            _log.info("A connection without proper TLS is closed: %s", error.reason or error)
            return 0


class Tls(Adapter):
    """A certificate and its key. A pair of files that is replaced while the server runs is taken up with the next connection.

    cheroot's own adapter shakes hands in the one thread that accepts connections: a client that connects and says nothing stops the whole
    server. This one leaves it to the thread that serves the connection, with its timeout.

    :param cert: the server's certificate, and those between it and the authority, in PEM.
    :param key: of the certificate.
    :param client_ca: certificates; clients must show one that these signed. None: clients need none.
    :raises BadConfig: ``tls-unusable``.
    """

    def __init__(self, cert: Path, key: Path, client_ca: Path | None = None) -> None:
        super().__init__(str(cert), str(key))
        self._pair = (cert, key)
        self._client_ca = client_ca
        try:
            self._seen = self._stamps()
            self.context = self._load()
        except (OSError, ssl.SSLError, ValueError) as error:
            raise errors.BadConfig(
                "tls-unusable",
                f"Certificate {cert}, key {key}"
                + (f" and {client_ca}" if client_ca else "")
                + f" cannot be used: {error}.",
            ) from error

    def bind(self, sock: socket.socket) -> socket.socket:
        """See the base class."""
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        """See the base class. The handshake comes with the first byte that is read."""
        self._take_up()
        return self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), {}

    def makefile(self, sock: socket.socket, mode: str = "r", bufsize: int = -1) -> Any:
        """See the base class."""
        return (StreamReader if "r" in mode else StreamWriter)(sock, mode, bufsize)

    def get_environ(self) -> dict[str, str]:
        """See the base class."""
        return {}

    def _load(self) -> ssl.SSLContext:
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        made.sslsocket_class = _Socket
        made.load_cert_chain(*self._pair, password=_no_password)
        if self._client_ca is not None:
            made.load_verify_locations(self._client_ca)
            made.verify_mode = ssl.CERT_REQUIRED
        return made

    def _stamps(self) -> list[tuple[int, int]]:
        return [(status.st_mtime_ns, status.st_ino) for status in map(os.stat, self._pair)]

    def _take_up(self) -> None:
        """Load the files again if they are others than before. Half of a new pair is no pair: then the old one stays until both fit."""
        with contextlib.suppress(OSError):
            stamps = self._stamps()
            if stamps == self._seen:
                return
            self._seen = stamps
            try:
                self.context = self._load()
                _log.info("%s is taken up", self._pair[0])
            except (ssl.SSLError, ValueError) as error:
                _log.warning("%s is new and cannot be used with its key; the old one stays: %s", self._pair[0], error)


def _no_password() -> str:
    raise ValueError("the key needs a password, and there is nobody to ask")
