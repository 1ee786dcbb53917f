"""A running ``cantle serve`` on the guest's real root, and its HTTP API as a plain client uses it."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.kernel.guest.command import CANTLE

#: Importing the server takes an emulated processor this long, with room to spare; its migrations run in a second process.
_START_SECONDS = 200.0
_LOG = Path("/lab/serve.log")


class Server:
    """Starts on creation; ``url`` is where it answers. Its log is appended to the boot's results."""

    def __init__(self, state_dir: Path, config: str) -> None:
        command = [CANTLE, "serve", "--listen", "127.0.0.1:0", "--state-dir", str(state_dir), "--config-file", config]
        with _LOG.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        self.url = self._ready_line().split()[4]
        os.environ["CANTLE_URL"] = self.url

    def _ready_line(self) -> str:
        assert self._process.stdout is not None
        ready = select.select([self._process.stdout], [], [], _START_SECONDS)[0]
        line = self._process.stdout.readline().decode() if ready else ""
        if not line.startswith("cantle is serving on http://"):
            self.kill()
            raise AssertionError(f"cantle serve does not serve; its log ends with:\n{_LOG.read_text()[-4000:]}")
        return line

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One request; its status and the JSON that came with it (None without any)."""
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.netloc, timeout=60)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        return response.status, json.loads(data) if data else None

    def stop(self) -> None:
        """Ends it as systemd would. Fails if it does not end well; does nothing if it has been killed."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            assert self._end() == 0

    def kill(self) -> None:
        """Ends it as a crash would."""
        self._process.kill()
        self._end()

    def _end(self) -> int:
        assert self._process.stdout is not None
        code = self._process.wait(60)
        self._process.stdout.close()
        return code
