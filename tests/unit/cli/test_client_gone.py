"""Clients of the embedded server that go away before they are answered."""

from __future__ import annotations

import gc
import socket
import struct
import sys
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from cantle.cli.listen import Address, HttpServer


def test_a_client_that_goes_before_its_answer_leaves_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Python 3.13 each left one on standard error; older ones print it when they are told to."""
    monkeypatch.setattr("_pyio._IOBASE_EMITS_UNRAISABLE", True, raising=False)
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    gone, answered = threading.Event(), threading.Event()

    def application(_environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        gone.wait(20)
        start("200 OK", [("Content-Length", "2")])
        try:
            yield b"h"
            yield b"i"
        finally:
            answered.set()

    server = HttpServer(Address("127.0.0.1", 0), threads=1, name="test")
    thread = threading.Thread(target=server.serve, args=(application,))
    thread.start()
    try:
        with socket.create_connection(server.address, timeout=20) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a close is a reset
        gone.set()
        assert answered.wait(20)
    finally:
        server.stop()
        thread.join(20)
    gc.collect()
    assert told == []
