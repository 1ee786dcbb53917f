"""What there is, and what is asked for, in the scheduler's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cantle.model.profile import traits


@dataclass(frozen=True, slots=True)
class Offer:
    """A deployable with what is free of it. ``out_of_service`` is why nothing may be taken now, in words."""

    deployable_id: int
    rp_uuid: str
    host_id: int
    hostname: str
    address: str
    resource_class: str
    traits: frozenset[str]
    used: int
    free: int
    out_of_service: str | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """One group of a profile: so many units, all of one provider (as Placement's granular groups). A group that names several
    resource classes wants one provider that has them all."""

    group_id: int
    amounts: tuple[tuple[str, int], ...]
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

    @property
    def amount(self) -> int:
        """Units of the (only) class."""
        return sum(amount for _, amount in self.amounts)


def asks(groups: Sequence[Mapping[str, str]], count: int) -> list[Ask]:
    """What ``count`` times a profile's groups ask for, in order."""
    once = [
        Ask(
            group_id=number,
            amounts=tuple(
                (key.partition(":")[2], int(value)) for key, value in group.items() if key.startswith("resources:")
            ),
            required=frozenset(traits(group, "required")),
            forbidden=frozenset(traits(group, "forbidden")),
        )
        for number, group in enumerate(groups)
    ]
    return once * count


def mismatch(ask: Ask, offer: Offer) -> str | None:
    """Why an offer is of the wrong kind for an ask, however much of it is free; None when it is of the right kind."""
    for resource_class, _ in ask.amounts:
        if resource_class != offer.resource_class:
            return f"{offer.address} has no {resource_class}"
    if missing := sorted(ask.required - offer.traits):
        return f"{offer.address} lacks {', '.join(missing)}"
    if unwanted := sorted(ask.forbidden & offer.traits):
        return f"{offer.address} has {', '.join(unwanted)}"
    return None
