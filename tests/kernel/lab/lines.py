"""JSON lines over a socket or a character device: how the guest's pytest and the host's talk (docs/kernel-lab.md, "The channel")."""

from __future__ import annotations

import json
import os
import select
from typing import Any


class Silence(Exception):
    """Nothing came within the time allowed."""


class Lines:
    """Reads and writes one JSON object per line on a file descriptor opened for both."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""

    def send(self, message: dict[str, Any]) -> None:
        """Writes one message whole. Raises OSError when the other end is gone."""
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._descriptor, data) :]

    def receive(self, seconds: float) -> dict[str, Any]:
        """The next message. Raises Silence when none is whole after ``seconds`` without a byte, EOFError when the other end is gone."""
        while b"\n" not in self._buffer:
            if not select.select([self._descriptor], [], [], seconds)[0]:
                raise Silence(f"nothing came for {seconds:.0f} s")
            try:
                data = os.read(self._descriptor, 65536)
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError("the other end is gone")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        return message
