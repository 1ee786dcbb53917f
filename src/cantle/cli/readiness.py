"""When ``cantle serve`` says that it is ready: once the hosts that run in it have told what they have, so that the next command of a script
finds their cards. Requests are answered from the start.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence

import click

from cantle.cli.notify import notify

_log = logging.getLogger(__name__)

#: Seconds for which hosts that have not reported yet hold the word up. Far less than systemd waits for READY=1 (90 s): a host that is slow,
#: or stuck in its kernel, is no reason to start the server again.
FIRST_REPORTS_S = 10.0


def say_ready(begun: Mapping[str, threading.Event], stop: threading.Event, lines: Sequence[str]) -> None:
    """Print these lines, and tell systemd, when the hosts have told what they have; not when the server ends before that.

    It is for a thread of its own, so that a signal ends the server meanwhile.
    """
    silent = still_silent(begun)
    if stop.is_set():
        return
    for name in silent:
        _log.warning(
            "%s told nothing of its cards in %d s; 'cantle host list' shows it once it has", name, FIRST_REPORTS_S
        )
    for line in lines:
        click.echo(line)
    sys.stdout.flush()
    notify("READY=1")


def still_silent(begun: Mapping[str, threading.Event], seconds: float = FIRST_REPORTS_S) -> list[str]:
    """Wait for every host's first report, or its failure. The names of those that are at it after so many seconds.

    :param begun: by the host's name, what its agent sets then, and at its end (`cantle.agent.agent.Agent.begun`).
    """
    deadline = time.monotonic() + seconds
    return [name for name, told in begun.items() if not told.wait(max(0.0, deadline - time.monotonic()))]
