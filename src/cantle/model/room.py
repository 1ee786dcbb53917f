"""How many more of a profile or flavor could be lent now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """One profile or flavor. ``by_host`` has the hosts on which some fit, with how many; ``problem``: why it cannot be counted."""

    name: str
    is_flavor: bool
    by_host: Mapping[str, int]
    problem: str | None = None

    @property
    def fits(self) -> int:
        """In all."""
        return sum(self.by_host.values())
