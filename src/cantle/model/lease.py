"""A lease: all the ARQs of one workload, with an owner and an optional end. Ours, above the accelerator API."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum

from cantle.model.arq import Arq
from cantle.model.attachment import Attachment
from cantle.model.isolation import Isolation, weakest


class LeaseState(StrEnum):
    """Where a loan is, read off its ARQs and claims."""

    PENDING = "pending"
    """Units are claimed and the host is making them ready; the host's result leaves it."""
    ACTIVE = "active"
    """Every unit is ready; a release leaves it."""
    FAILED = "failed"
    """At least one unit could not be made ready, the reason is on its ARQ; a release leaves it."""
    RELEASING = "releasing"
    """It was given back and somebody may still hold a unit of it; the host's word that nobody does, or a person's force leaves it."""
    CLEANING = "cleaning"
    """Nobody holds its units any more and the host resets what is left of them; the host's result or a person's force leaves it."""
    QUARANTINED = "quarantined"
    """Nobody holds its units any more and at least one could not be cleaned; the host's next success or a person's force leaves it."""
    RELEASED = "released"
    """All units are back and can be lent again; nothing leaves it."""


#: to-state by from-state: how a lease goes, and by what. Total: each state is a key, a test holds it so.
TRANSITIONS: dict[LeaseState, dict[LeaseState, str]] = {
    LeaseState.PENDING: {
        LeaseState.ACTIVE: "every unit is ready",
        LeaseState.FAILED: "a unit cannot be made ready",
        LeaseState.RELEASING: "release, expiry",
    },
    LeaseState.ACTIVE: {LeaseState.RELEASING: "release, expiry"},
    LeaseState.FAILED: {LeaseState.RELEASING: "release, expiry", LeaseState.RELEASED: "release, all units are back"},
    LeaseState.RELEASING: {
        LeaseState.CLEANING: "nobody holds it",
        LeaseState.QUARANTINED: "a unit cannot be cleaned",
        LeaseState.RELEASED: "all units are back, or forced with a reason",
    },
    LeaseState.CLEANING: {
        LeaseState.QUARANTINED: "a unit cannot be cleaned",
        LeaseState.RELEASING: "somebody holds it again",
        LeaseState.RELEASED: "clean, or forced",
    },
    LeaseState.QUARANTINED: {
        LeaseState.CLEANING: "clean after all, and others are not yet",
        LeaseState.RELEASING: "somebody holds it again",
        LeaseState.RELEASED: "clean after all, or forced",
    },
    LeaseState.RELEASED: {},
}

#: States in which nothing more happens by itself, save that a host tries again what it could not do.
SETTLED = frozenset({LeaseState.ACTIVE, LeaseState.FAILED, LeaseState.RELEASED})


class Stage(StrEnum):
    """How far a host is with a unit that it takes back."""

    RELEASING = "releasing"
    """Somebody may still hold it; the host's word that nobody does leaves it."""
    CLEANING = "cleaning"
    """Nobody holds it and it is being reset; the host's result leaves it."""
    QUARANTINED = "quarantined"
    """Nobody holds it and it could not be cleaned; the host's next success or a person's force leaves it."""


#: Stages in which the host has said that nobody holds the unit.
FREED = frozenset({Stage.CLEANING, Stage.QUARANTINED})


class OnExpiry(StrEnum):
    """What happens when the time of a lease is over. It is announced before, whatever it is."""

    NOTIFY = "notify"
    """The owner is told and the lease stands until somebody releases it."""
    DETACH = "detach"
    """It is given back: units are taken out of guests where Cantle put them in, and otherwise awaited until their guest lets go."""
    STOP_GUEST = "stop-guest"
    """The guest that Cantle attached its units to is stopped, then it is given back; refused for a lease without an attachment."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A loan as the server remembers it.

    :param expired_at: when what ``on_expiry`` says was done.
    :param attachment: the guest that its host puts its units into; None: whoever borrowed them does.
    :param reasons: why units of a lease that was given back are not free yet, in the host's words.
    """

    id: int
    uuid: str
    state: LeaseState
    profile_name: str
    project_id: str | None
    owner: str
    workload: str
    hostname: str
    created_at: dt.datetime
    updated_at: dt.datetime | None = None
    expires_at: dt.datetime | None = None
    on_expiry: OnExpiry = OnExpiry.DETACH
    expired_at: dt.datetime | None = None
    attachment: Attachment | None = None
    reasons: tuple[str, ...] = ()
    arqs: tuple[Arq, ...] = ()

    @property
    def isolation(self) -> Isolation | None:
        """That of its worst unit; None when it has none any more."""
        return weakest(one.isolation for one in self.arqs)
