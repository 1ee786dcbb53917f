"""How many units of a resource class a project may have at once."""

from __future__ import annotations

from dataclasses import dataclass

#: The most that a limit can say.
MAX_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class Quota:
    """One class of one project. ``limit`` None: as many as there are. ``used``: units lent or still being taken back; a slice of a card
    is one unit."""

    project_id: str
    resource_class: str
    limit: int | None
    used: int
