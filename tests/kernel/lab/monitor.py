"""QEMU's monitor (QMP): pulling cards out of the running guest and putting them back, on a test's behalf."""

from __future__ import annotations

from typing import Any

from tests.kernel.lab.lines import Lines

_SECONDS = 60.0


class MonitorError(Exception):
    """QEMU refused a command; the message is QEMU's."""


class Monitor:
    """A QMP connection, ready for commands."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        lines.receive(_SECONDS)  # the greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str, arguments: dict[str, Any] | None = None, until: str | None = None) -> Any:
        """Runs one command and returns what QEMU returned.

        :param until: an event to wait for as well: a card is out of QEMU only with ``DEVICE_DELETED``, not with the answer.
        :raises MonitorError: with QEMU's words if it refuses.
        :raises Silence: when neither answer nor event comes.
        """
        self._lines.send({"execute": command, "arguments": arguments or {}})
        answer: dict[str, Any] | None = None
        while answer is None or until is not None:
            message = self._lines.receive(_SECONDS)
            if "error" in message:
                raise MonitorError(message["error"]["desc"])
            if "return" in message:
                answer = message
            elif message.get("event") == until:
                until = None
        return answer["return"]
