"""One page of a collection: how many, after which one, in which order. The same for every list."""

from __future__ import annotations

from dataclasses import dataclass

from cantle.errors import BadRequest

#: What a caller may ask for at once; a longer list is read page by page.
MAX_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Page:
    """A window on a list. ``marker`` is the uuid of the last item already seen; ``limit`` None means all of them.

    Which ``sort_key`` values exist depends on the list, which refuses others with ``bad-sort-key``. Items that are equal by the key
    keep the order they were made in, so that a walk page by page sees each item once.

    :raises BadRequest: ``bad-page``, for a limit outside 1…10,000 or a direction that is neither ``asc`` nor ``desc``.
    """

    limit: int | None = None
    marker: str | None = None
    sort_key: str = "created_at"
    sort_dir: str = "asc"

    def __post_init__(self) -> None:
        if self.limit is not None and not 1 <= self.limit <= MAX_LIMIT:
            raise BadRequest(
                "bad-page", f"limit is {self.limit}; give a number from 1 to {MAX_LIMIT}.", limit=self.limit
            )
        if self.sort_dir not in ("asc", "desc"):
            raise BadRequest("bad-page", f"sort_dir is {self.sort_dir!r}; give asc or desc.", sort_dir=self.sort_dir)
