"""What there is, in the scheduler's words."""

from __future__ import annotations

from dataclasses import dataclass

from cantle.model.kind import UNIT_LABEL, Kind


@dataclass(frozen=True, slots=True)
class Offer:
    """A deployable with what is free of it.

    :param used: units lent, those being taken back included; ``free`` could be claimed now, if ``out_of_service`` is None.
    :param out_of_service: why nothing may be taken now: a code, and words that hold for every card of which it is so.
    :param numa_node: None where the kernel does not know.
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

    @property
    def unit(self) -> str | None:
        """Name of the unit of cards it belongs to, on its host; None for a card by itself."""
        return self.kind.labels.get(UNIT_LABEL)
