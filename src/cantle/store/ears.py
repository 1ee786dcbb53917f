"""How wake-ups go from one process to another. They stay hints: whoever waits looks for himself as well (`cantle.store.wakeups`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from sqlalchemy import Connection

from cantle.store.wakeups import Wakeups


class Ears(Protocol):
    """What a database offers for it."""

    def start(self, wakeups: Wakeups) -> None:
        """Begin to ring this process's waiters for what other processes write. Called when somebody waits for the first time."""

    def tell(self, connection: Connection, topics: Iterable[str]) -> None:
        """Make a transaction that is about to be committed ring other processes, once it is."""

    def stop(self) -> None:
        """End. Also without a start."""


class NoEars:
    """SQLite: nobody else writes."""

    def start(self, wakeups: Wakeups) -> None:
        """Nothing to hear."""

    def tell(self, connection: Connection, topics: Iterable[str]) -> None:
        """Nobody to tell."""

    def stop(self) -> None:
        """Nothing to end."""
