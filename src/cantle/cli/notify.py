"""Tells systemd what state we are in (sd_notify(3)), when it asked to be told."""

from __future__ import annotations

import os
import socket


def notify(state: str) -> None:
    """Send ``READY=1`` or ``STOPPING=1`` to the socket that NOTIFY_SOCKET names; nothing when it names none.

    :raises OSError: the socket is named but does not take the message.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # the abstract namespace
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
        line.connect(address)
        line.sendall(state.encode())
