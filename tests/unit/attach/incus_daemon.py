"""A stand-in for Incus's daemon, as its REST API is documented: instances with devices, ETags, operations that are waited for.

For faults, and for speed: tests/real/test_lxd.py has a real one. Its answers are those that LXD 5.0.2 gave. An instance is written by PUT
and only where If-Match is its ETag, the write is an operation in the background, and a device that cannot be applied makes that operation
fail and leaves the instance as it was. An operation is forgotten a few seconds after its end, and by a daemon that starts again.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

from cantle.kernel.root import Root

SOCKET = "var/lib/incus/unix.socket"
_WRITABLE = ("architecture", "config", "description", "devices", "ephemeral", "profiles", "stateful")


class Daemon:
    """It listens below a root until :meth:`stop`.

    :ivar fault: why the next operation fails; "" for none.
    :ivar forgets: it knows no operation any more when it is asked for one.
    :ivar meanwhile: called before each write, as somebody else who is faster.
    """

    def __init__(self, root: Root) -> None:
        self.instances: dict[str, dict[str, Any]] = {}
        self.operations: dict[str, str] = {}
        self.fault = ""
        self.forgets = False
        self.meanwhile: Callable[[], object] = lambda: None
        self.writes = 0
        place = Path(root.path, SOCKET)
        place.parent.mkdir(parents=True, exist_ok=True)
        self._place = place
        directory = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
        self._server = _Server(f"/proc/self/fd/{directory}/{place.name}", _handler(self))
        os.close(directory)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._place.unlink()

    def add(self, name: str, **how: Any) -> dict[str, Any]:
        """An instance with a disk of its own."""
        disk = {"type": "disk", "source": "/srv/data", "path": "/data"}
        self.instances[name] = {
            "name": name,
            "type": "container",
            "status": "Running",
            "status_code": 103,
            "architecture": "x86_64",
            "config": {"image.os": "Debian", "user.by-hand": "keep me"},
            "description": "by hand",
            "devices": {"data": disk},
            "expanded_devices": {"data": disk, "root": {"type": "disk", "path": "/", "pool": "default"}},
            "ephemeral": False,
            "profiles": ["default"],
            "stateful": False,
            **how,
        }
        return self.instances[name]

    def etag(self, name: str) -> str:
        one = self.instances[name]
        text = json.dumps(
            [one[key] for key in ("architecture", "config", "devices", "ephemeral", "profiles")], sort_keys=True
        )
        return f'"{hashlib.sha256(text.encode()).hexdigest()}"'

    def write(self, name: str, body: dict[str, Any]) -> str:
        """The operation."""
        self.writes += 1
        number = str(uuid.uuid4())
        self.operations[number], self.fault = self.fault, ""
        if not self.operations[number]:
            known = {key: body[key] for key in _WRITABLE if key in body}
            assert known == body, "the API knows no other fields of an instance"
            self.instances[name].update(body)
        return number

    def act(self, name: str, body: dict[str, Any]) -> str:
        number = str(uuid.uuid4())
        stops, is_stopped = body["action"] == "stop", self.instances[name]["status"] == "Stopped"
        as_it_is = f"The instance is already {'stopped' if stops else 'running'}" if stops is is_stopped else ""
        self.operations[number], self.fault = self.fault or as_it_is, ""
        if not self.operations[number]:
            status, code = {"stop": ("Stopped", 102), "start": ("Running", 103)}[body["action"]]
            self.instances[name].update(status=status, status_code=code)
        return number


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, _ = super().get_request()
        return connection, ("local", 0)


def _handler(daemon: Daemon) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_words: object) -> None:
            """Say nothing."""

        def _answer(self, status: int, body: dict[str, Any], **headers: str) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for key, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

        def _error(self, status: int, words: str) -> None:
            self._answer(status, {"type": "error", "error_code": status, "error": words, "metadata": None})

        def do_GET(self) -> None:
            parts = self.path.partition("?")[0].strip("/").split("/")
            if parts[:2] == ["1.0", "operations"] and daemon.forgets:
                self._error(404, "Operation not found")
            elif parts[:2] == ["1.0", "operations"] and parts[3:] == ["wait"]:
                fault = daemon.operations[parts[2]]
                told = {"id": parts[2], "class": "task", "status": "Failure" if fault else "Success", "err": fault}
                self._answer(
                    200,
                    {"type": "sync", "status_code": 200, "metadata": {**told, "status_code": 400 if fault else 200}},
                )
            elif parts[2] not in daemon.instances:
                self._error(404, "Instance not found")
            else:
                body = {"type": "sync", "status_code": 200, "metadata": daemon.instances[parts[2]]}
                self._answer(200, body, ETag=daemon.etag(parts[2]))

        def do_PUT(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            parts = self.path.strip("/").split("/")
            daemon.meanwhile()
            if parts[2] not in daemon.instances:
                self._error(404, "Instance not found")
            elif parts[3:] == ["state"]:
                self._operation(daemon.act(parts[2], body))
            elif self.headers["If-Match"] != daemon.etag(parts[2]):
                self._error(412, "ETag doesn't match: expected something else")
            else:
                self._operation(daemon.write(parts[2], body))

        def _operation(self, number: str) -> None:
            place = f"/1.0/operations/{number}"
            body = {"type": "async", "status_code": 100, "operation": place, "metadata": {"id": number}}
            self._answer(202, body, Location=place)

    return Handler
