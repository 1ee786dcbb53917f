"""A line on a terminal for what takes longer than a moment: what is done, and for how long. In a pipe there is none."""

from __future__ import annotations

import sys
import threading
import time
from typing import Self

import click

#: Seconds after which a person wonders whether anything happens.
PATIENCE = 1.0


class Progress:
    """One line on standard error that is rewritten in place every second, on a terminal only, and wiped at the end.

    :param label: what is done: ``Waiting for lease 8f…``.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._state = ""
        self._started = time.monotonic()
        self._shown = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._ticker: threading.Thread | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
            self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._ticker is not None:
            self._ticker.join()
        self._wipe()

    def show(self, state: str) -> None:
        """What is known now; seen with the next second."""
        self._state = state

    def _tick(self) -> None:
        while not self._over.wait(PATIENCE):
            self._draw()

    def _draw(self) -> None:
        spent = time.monotonic() - self._started
        line = f"{self._label} … {self._state} ({spent:.0f} s)" if self._state else f"{self._label} … ({spent:.0f} s)"
        with self._lock:
            click.echo("\r" + line.ljust(self._shown), nl=False, err=True)
            self._shown = len(line)

    def _wipe(self) -> None:
        if self._shown:
            click.echo("\r" + " " * self._shown + "\r", nl=False, err=True)
