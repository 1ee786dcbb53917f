"""QEMU's monitor (QMP): pulling cards out of the running guest and putting them back, on a test's behalf."""

from __future__ import annotations

from typing import Any

from tests.kernel.lab.lines import Lines

_SECONDS = 30.0


class MonitorError(Exception):
    """QEMU refused a command; the message is QEMU's."""


class Monitor:
    """A QMP connection, ready for commands."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        lines.receive(_SECONDS)  # the greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: Any) -> Any:
        """Runs one command and returns what QEMU returned. Raises MonitorError with QEMU's words if it refuses."""
        self._lines.send({"execute": command, "arguments": arguments})
        while True:
            answer = self._lines.receive(_SECONDS)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise MonitorError(answer["error"]["desc"])
