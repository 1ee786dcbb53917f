"""Another client of the same server, in a process of its own: what its calls take while agents do what they do.

    python -m bench.agents_others PORT

It calls fifty times a second from each line of standard input to the next, and then prints the milliseconds of each call, as JSON.
"""

from __future__ import annotations

import http.client
import json
import select
import subprocess
import sys
import time

#: Seconds between two calls.
PAUSE = 0.02


class Others:
    """That process, for who measures."""

    def __init__(self, port: int) -> None:
        argv = [sys.executable, "-m", "bench.agents_others", str(port)]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def begin(self) -> None:
        """Call from now on."""
        self._say()

    def end(self) -> list[float]:
        """Call no more; what each call took, in milliseconds."""
        self._say()
        assert self._process.stdout is not None
        found: list[float] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _say(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()


def call(port: int, method: str, path: str) -> bytes:
    """One call on a connection of its own; it must succeed."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status < 400, text
        return text
    finally:
        connection.close()


def main() -> None:
    """Until standard input ends."""
    port = int(sys.argv[1])
    while sys.stdin.readline():
        found = []
        while not select.select([sys.stdin], [], [], PAUSE)[0]:
            began = time.monotonic()
            call(port, "GET", "/v2/device_profiles")
            found.append(1000 * (time.monotonic() - began))
        sys.stdin.readline()
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
