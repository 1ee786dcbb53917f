"""Waiting for something to settle on the server: long requests one after the other until it has, with progress on a terminal."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from cantle import errors
from cantle.cli.exit_codes import TimedOut
from cantle.cli.progress import Progress

#: Seconds one request asks the server to wait; a server may answer earlier.
SLICE = 20.0

#: Seconds from one request to the next when the server answers without having waited.
PACE = 0.25


def wait_for(
    ask: Callable[[float], dict[str, Any]],
    settled: Callable[[dict[str, Any]], bool],
    *,
    seconds: float,
    what: str,
) -> dict[str, Any]:
    """Ask until ``settled`` says so, and return that answer.

    A server that is away is asked again: what was asked for goes on without us.

    :param ask: one request; its argument is how long the server may wait before it answers (seconds).
    :param what: what is waited for, for the progress line and the error ("lease 8f… becoming active").
    :raises TimedOut: ``wait-timed-out`` after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    away: errors.Unavailable | None = None
    with Progress(f"Waiting for {what}") as progress:
        while True:
            began = time.monotonic()
            left = deadline - began
            try:
                answer = ask(max(0.0, min(SLICE, left)))
                away = None
                if settled(answer):
                    return answer
                progress.show(str(answer.get("state", "")))
                _pause(PACE - (time.monotonic() - began), left)
            except errors.Unavailable as error:
                away = error
                progress.show("the server is away")
                _pause(random.uniform(0.3, 1.0), left)  # noqa: S311 - spreads retries, no secret
            if time.monotonic() >= deadline:
                why = f" {away.message}" if away else ""
                raise TimedOut("wait-timed-out", f"Gave up waiting for {what} after {seconds:g} s; it goes on.{why}")


def _pause(seconds: float, at_most: float) -> None:
    time.sleep(max(0.0, min(seconds, at_most)))
