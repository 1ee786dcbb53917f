"""A deployable: the part of a device that is offered together. One deployable is one Placement resource provider."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attribute:
    """A fact about a deployable, in Cyborg's wording: ``rc`` is its resource class, ``trait0``… its traits.

    ``operator`` attributes were written over the API and survive the host's next report; the others come from it.
    """

    id: int
    uuid: str
    deployable_id: int
    key: str
    value: str
    operator: bool
    created_at: dt.datetime
    updated_at: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class Deployable:
    """A deployable as the server remembers it.

    ``name`` is ``<hostname>_<device address>``, also the provider's name. ``total`` is the number of units the host can deliver
    (the contract's ``num_accelerators``); ``used`` the number claimed, those being cleaned up included. ``in_service`` is false
    when nothing may be claimed from it (device maintaining, not healthy, host down) whatever ``total`` says; ``reason`` is then why.
    """

    id: int
    uuid: str
    name: str
    device_id: int
    device_uuid: str
    device_address: str
    hostname: str
    rp_uuid: str
    driver_name: str
    resource_class: str
    traits: tuple[str, ...]
    total: int
    used: int
    in_service: bool
    created_at: dt.datetime
    updated_at: dt.datetime | None = None
    attributes: tuple[Attribute, ...] = ()
    parent_id: int | None = None
    root_id: int | None = None
    bitstream_id: str | None = None
    reason: str | None = None
