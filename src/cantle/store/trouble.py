"""Trouble that is met again and again is told once, and once when it is over: or a log is full of a database that is away."""

from __future__ import annotations

import logging


class Trouble:
    """One thing that may not work for a while. Each user has its own, in one thread.

    :param over: the line that says it works again.
    """

    def __init__(self, log: logging.Logger, over: str) -> None:
        self._log = log
        self._over = over
        self._told: str | None = None

    def met(self, words: str, *, kind: str | None = None) -> None:
        """It did not work; told if it was not told in these words, or, where a kind is given, was told of another one."""
        if (kind or words) != self._told:
            self._told = kind or words
            self._log.warning("%s", words)

    def over(self) -> None:
        """It worked."""
        if self._told is not None:
            self._told = None
            self._log.warning("%s", self._over)
