"""A machine that systemd runs, from power to power: commands in it, restarts, and the plug."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kernel.lab import qemu
from tests.kernel.lab.emulator import Emulator
from tests.kernel.lab.guest import Lab
from tests.kernel.lab.lines import Silence

#: Seconds in which it must come up, which takes it 20 on a machine with nothing else to do.
TO_COME_UP = 240.0
_COMMAND = 180.0
_MIB = 1024


@dataclass(frozen=True)
class Ran:
    """What a command left."""

    status: int
    out: str
    err: str


class Computer:
    """Switched on when made. Whoever makes one calls ``kill`` at the end, whatever happened."""

    def __init__(self, lab: Lab, disk: Path) -> None:
        self._results = lab.results / "systemd"
        self._results.mkdir()
        arguments = ("intel_iommu=on", "iommu=pt", "root=/dev/vda", "panic=0")

        def command(channel: int, monitor: int) -> list[str]:
            return [
                *qemu.command(lab.folder, "disk.img", arguments, _MIB, self._results, channel, monitor),
                *qemu.share("modules", lab.modules, readonly=True),
                *qemu.disk("root", disk),
            ]

        self._emulator = Emulator(self._results, command)

    def come_up(self) -> None:
        """Waits until it takes commands and systemd has started what is enabled."""
        try:
            message = self._emulator.lines.receive(TO_COME_UP)
        except (Silence, EOFError) as failure:
            console = (self._results / "console.log").read_text(errors="replace").splitlines()[-60:]
            raise AssertionError("\n".join([f"the machine did not come up: {failure}", *console])) from None
        assert message == {"up": True}
        self.run("systemctl", "is-system-running", "--wait", check=False, seconds=TO_COME_UP)

    def run(self, *argv: str, check: bool = True, stdin: str = "", seconds: float = _COMMAND) -> Ran:
        """Runs a command as root. With ``check``, one that fails fails the test, with what it said."""
        answer = self._ask({"run": [argv, stdin, seconds]}, seconds + 60)
        ran = Ran(answer["status"], answer["out"], answer["err"])
        with (self._results / "commands.log").open("a") as log:
            log.write(f"$ {shlex.join(argv)}\n{ran.out}{ran.err}[{ran.status}]\n")
        assert not check or ran.status == 0, f"{shlex.join(argv)}: status {ran.status}\n{ran.out}\n{ran.err}"
        return ran

    def call(self, method: str, path: str, token: str, body: object = None) -> tuple[int, Any]:
        """A request to the API, from this machine: its status, and the JSON that came (None without any)."""
        answer = self._ask({"call": [method, path, token, body]}, _COMMAND)
        return answer["status"], answer["body"]

    def _ask(self, order: dict[str, Any], seconds: float) -> dict[str, Any]:
        self._emulator.lines.send(order)
        answer = self._emulator.lines.receive(seconds)
        assert "failed" not in answer, f"{order}: {answer['failed']}"
        return answer

    def sh(self, script: str) -> None:
        """Runs the commands of a guide in a clone, as root."""
        self.run("sh", "-ec", script)

    def said(self, *argv: str) -> str:
        """What a command that succeeds prints."""
        return self.run(*argv).out.strip()

    def unit(self, name: str, *properties: str) -> dict[str, str]:
        """Properties of a unit, as systemd has them."""
        lines = self.said("systemctl", "show", name, *(f"--property={one}" for one in properties)).splitlines()
        return dict(line.split("=", 1) for line in lines)

    def journal(self, *units: str) -> list[str]:
        """What units have written in this boot."""
        which = [word for unit in units for word in ("-u", unit)]
        return self.said("journalctl", "-b", "--no-pager", "-o", "cat", *which).splitlines()

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
        """Waits for a condition, with a limit."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
            time.sleep(0.5)

    def reboot(self) -> None:
        """As an operator does."""
        self.run("systemctl", "--no-block", "reboot")
        self.come_up()

    def pull_the_plug(self) -> None:
        """A loss of power: nothing is written any more; then power is back."""
        self._emulator.monitor.execute("system_reset")
        self.come_up()

    def save_journal(self) -> None:
        """Into the results, for people."""
        (self._results / "journal.log").write_text(self.said("journalctl", "--no-pager"))

    def kill(self) -> None:
        """Ends QEMU; a second call does nothing."""
        self._emulator.kill()
