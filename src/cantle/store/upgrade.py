"""Migrations in a child process, for servers: Alembic's memory goes when the child does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

from cantle.errors import BadConfig, CantleError, Unavailable
from cantle.store.database import Database


def upgrade_in_child(url: str) -> None:
    """Bring the database's schema to what this version needs. Where it is that already, as at most starts, no child is made.

    :raises BadConfig: ``bad-database-url``, ``database-driver-missing``, ``database-foreign``, ``database-refused``.
    :raises Unavailable: ``database-…`` as the child said, or ``migration-failed`` with the end of what it wrote.
    """
    if _is_current(url):
        return
    with _later(signal.SIGINT, signal.SIGTERM):
        child = subprocess.Popen(
            # -P: nothing is imported from where we were started.
            [sys.executable, "-P", "-m", "cantle.store.migrate", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    with child:
        _, said = child.communicate(url + "\n")
    if child.returncode == 0:
        return
    last = said.strip().splitlines()[-1:] or [f"exit status {child.returncode}"]
    code, colon, message = last[0].partition(": ")
    if child.returncode in (1, os.EX_CONFIG) and colon and code.startswith(("database-", "bad-database-")):
        # That a database refuses us is our mistake at a start only, as in `Database.open`.
        is_mistake = child.returncode == os.EX_CONFIG or code == "database-refused"
        kind: type[CantleError] = BadConfig if is_mistake else Unavailable
        raise kind(code, message)
    raise Unavailable("migration-failed", f"The migrations of the database did not finish: {last[0]}")


@contextlib.contextmanager
def _later(*numbers: signal.Signals) -> Iterator[None]:
    """Hold these signals back from this thread for now, and from a child made meanwhile for good: Ctrl-C at a terminal and systemd's stop
    reach all processes, but are for the server, which lets the child finish. A process group of its own would come a moment too late."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_current(url: str) -> bool:
    """Whether there is nothing to do. Whatever is in the way, the child says it."""
    try:
        Database.open(url).close()
    except CantleError:
        return False
    return True
