"""Migrations in a child process, for servers: Alembic's memory goes when the child does."""

from __future__ import annotations

import subprocess
import sys

from cantle.errors import BadConfig, CantleError, Unavailable
from cantle.store.database import Database


def upgrade_in_child(url: str) -> None:
    """Bring the database's schema to what this version needs. Where it is that already, as at most starts, no child is made.

    :raises BadConfig: ``bad-database-url``, ``database-refused``.
    :raises Unavailable: ``database-…`` as the child said, or ``migration-failed`` with the end of what it wrote.
    """
    if _is_current(url):
        return
    child = subprocess.run(
        [sys.executable, "-P", "-m", "cantle.store.migrate", "-"],  # -P: nothing is imported from where we were started
        input=url + "\n",
        capture_output=True,
        text=True,
        check=False,
        process_group=0,  # Ctrl-C is for the server, which lets the child finish
    )
    if child.returncode == 0:
        return
    last = child.stderr.strip().splitlines()[-1:] or [f"exit status {child.returncode}"]
    code, colon, message = last[0].partition(": ")
    if child.returncode == 1 and colon and code.startswith(("database-", "bad-database-")):
        kind: type[CantleError] = BadConfig if code in ("bad-database-url", "database-refused") else Unavailable
        raise kind(code, message)
    raise Unavailable("migration-failed", f"The migrations of the database did not finish: {last[0]}")


def _is_current(url: str) -> bool:
    """Whether there is nothing to do. Whatever is in the way, the child says it."""
    try:
        Database.open(url).close()
    except CantleError:
        return False
    return True
