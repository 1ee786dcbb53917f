"""A running QEMU and the two channels to it: lines from and to its guest, and the monitor."""

from __future__ import annotations

import shlex
import socket
import subprocess
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from tests.kernel.lab.lines import Lines
from tests.kernel.lab.monitor import Monitor


class Emulator:
    """Started when made. Whoever makes one calls ``kill`` at the end, whatever happened: it ends QEMU in any state.

    :param results: the folder for its command line and its log.
    :param command: its command line, for the descriptors that the lines and the monitor are connected to.
    """

    def __init__(self, results: Path, command: Callable[[int, int], list[str]]) -> None:
        ours, theirs = socket.socketpair()
        our_monitor, their_monitor = socket.socketpair()
        argv = command(theirs.fileno(), their_monitor.fileno())
        (results / "command").write_text(shlex.join(argv) + "\n")
        with theirs, their_monitor, (results / "qemu.log").open("wb") as log:
            self.process = subprocess.Popen(
                argv,
                pass_fds=(theirs.fileno(), their_monitor.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._sockets = (ours, our_monitor)
        self.lines = Lines(ours.fileno())

    @cached_property
    def monitor(self) -> Monitor:
        """It greets whoever comes first, so it is asked for when the guest is up."""
        return Monitor(Lines(self._sockets[1].fileno()))

    def kill(self) -> None:
        """Ends QEMU; a second call does nothing."""
        self.process.kill()
        self.process.wait()
        for end in self._sockets:
            end.close()
