"""How much of each deployable is free, for people and for the scheduler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capacity:
    """One deployable's units. ``used`` counts claims, those being taken back included; ``free`` is what could be claimed now:
    0 while ``in_service`` is false, and then ``reason`` says why. Of a card in service ``reason`` is what its host says is not well."""

    hostname: str
    device_address: str
    deployable_uuid: str
    rp_uuid: str
    resource_class: str
    traits: tuple[str, ...]
    total: int
    used: int
    free: int
    in_service: bool
    reason: str | None = None
