"""What Placement shall have of a host. Pure: from what is offered, lent, broken and held back to providers.

Promise 1 decides each case: what cannot be delivered now is reserved, what is lent stays, and what is neither offered nor lent goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cantle.model.provider import Record, Wanted

#: How much of it one guest may take. NVIDIA's older types allow one vGPU in a guest (vGPU User Guide, "Multiple vGPU Support").
VGPU = "VGPU"


@dataclass(frozen=True, slots=True)
class Part:
    """A deployable as the database has it.

    :param offered: units its host can deliver, lent ones included.
    :param lent: units that are claimed, whatever for.
    :param held_back: of these, units that have no allocation in Placement: lent by a lease of our own, or not yet taken back.
    :param out_of_service: why nothing may be lent of it now, in words.
    :param vanished: its host has not named it for longer than the grace.
    :param attachable: Nova can give it to an instance.
    """

    uuid: str
    name: str
    resource_class: str
    traits: frozenset[str]
    offered: int
    lent: int = 0
    held_back: int = 0
    out_of_service: str | None = None
    vanished: bool = False
    attachable: bool = True


@dataclass(frozen=True, slots=True)
class Rules:
    """What the configuration says.

    :param vgpu_max_unit: the most vGPUs that one request group may take of one provider.
    """

    vgpu_max_unit: int = 1


def wanted(parts: Iterable[Part], records: Mapping[str, Record], rules: Rules) -> dict[str, Wanted]:
    """What a host shall have in Placement, by uuid: a provider for each part, and an end for each that we remember and do not want."""
    found: dict[str, Wanted] = {}
    for part in parts:
        one = _provider(part, rules)
        if not one.gone or part.uuid in records:
            found[part.uuid] = one
    for uuid, record in records.items():
        if uuid not in found:
            found[uuid] = _ending(record)
    return found


def _provider(part: Part, rules: Rules) -> Wanted:
    unwanted = part.offered == 0 or part.vanished
    total = max(part.offered, part.lent)
    leaving = f"it is offered no more; {part.lent} still lent" if unwanted or part.lent > part.offered else None
    return Wanted(
        uuid=part.uuid,
        name=part.name,
        resource_class=part.resource_class,
        total=total,
        max_unit=rules.vgpu_max_unit if part.resource_class == VGPU else total,
        traits=part.traits,
        reserved=min(total, part.held_back),
        withheld=part.out_of_service or leaving,
        gone=not part.attachable or (unwanted and part.lent == 0),
    )


def _ending(record: Record) -> Wanted:
    """A provider whose deployable is no more."""
    form = record.forms[-1] if record.forms else None
    return Wanted(
        uuid=record.uuid,
        name=record.name,
        resource_class=form.resource_class if form else "",
        total=0,
        max_unit=1,
        traits=form.traits if form else frozenset(),
        withheld="its deployable is no more",
        gone=True,
    )
