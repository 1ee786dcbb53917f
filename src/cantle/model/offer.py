"""What there is, in the scheduler's words."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cantle.model.kind import UNIT_LABEL, Kind
from cantle.model.numa import Sockets


class Offer(msgspec.Struct, frozen=True, gc=False):
    """A deployable with what is free of it. A struct: a whole cloud's are made to explain something.

    ``used``: units lent, those being taken back included; ``free`` could be claimed now, if ``out_of_service`` is None: why nothing may be
    taken now, a code, and words that hold for every card of which it is so. ``numa_node``: None where the kernel does not know.
    ``sockets``: of its host, None where the host does not tell them. ``failing``: a unit of it could not be made ready a moment ago.
    ``total``: units that its host can deliver, also of those that are lent; None where nobody has asked.
    """

    deployable_id: int
    rp_uuid: str
    host_id: int
    hostname: str
    address: str
    kind: Kind
    used: int
    free: int
    numa_node: int | None = None
    out_of_service: tuple[str, str] | None = None
    sockets: Sockets | None = None
    failing: bool = False
    total: int | None = None

    @property
    def unit(self) -> str | None:
        """Name of the unit of cards it belongs to, on its host; None for a card by itself."""
        return self.kind.labels.get(UNIT_LABEL)

    @property
    def room(self) -> int:
        """How many of its free units one guest may have."""
        limit = self.kind.per_guest
        return self.free if limit is None else min(self.free, limit)


def sockets_of(offers: Sequence[Offer]) -> Sockets | None:
    """The sockets of the host whose offers these are."""
    return offers[0].sockets if offers else None
