"""HTTP over a Unix socket of the host, as daemons of container managers speak it."""

from __future__ import annotations

import http.client
import os
import socket

from cantle.kernel.root import Root


class UnixHTTPConnection(http.client.HTTPConnection):
    """One connection. Failures as of :mod:`http.client`.

    :param rel: of the socket, below the root.
    :param timeout: seconds for each answer.
    """

    def __init__(self, root: Root, rel: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._parent, _, self._name = f"{root.path.rstrip('/')}/{rel}".rpartition("/")

    def connect(self) -> None:
        """See :meth:`http.client.HTTPConnection.connect`. By the directory, since an address has room for 107 bytes.

        :raises OSError: nobody listens there.
        """
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.sock.settimeout(self.timeout)
        place = os.open(self._parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sock.connect(f"/proc/self/fd/{place}/{self._name}")
        finally:
            os.close(place)
