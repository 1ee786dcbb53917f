"""How many units of a resource class a project may have at once."""

from __future__ import annotations

from dataclasses import dataclass

#: The most that a limit can say.
MAX_LIMIT = 1_000_000
#: In place of a project: the limit of each that has none of its own. What is used has no meaning there, and is 0.
DEFAULT = "*"


@dataclass(frozen=True, slots=True)
class Quota:
    """One class of one project. ``limit`` None: as many as there are. ``used``: units lent or still being taken back; a slice of a card
    is one unit. ``inherited``: the limit is that of `DEFAULT`, since the project has none of its own."""

    project_id: str
    resource_class: str
    limit: int | None
    used: int
    inherited: bool = False
