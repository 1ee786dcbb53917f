"""Events: what others are told when something has come to its end, and who these others are."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum


class Channel(StrEnum):
    """Who is told."""

    NOVA = "nova"
    """The compute service, which waits for the ARQs of an instance to be bound (spec S3.5)."""
    WEBHOOK = "webhook"
    """An HTTP server of the operator's choice."""


class EventType(StrEnum):
    """What is told. Of these, Nova hears one; webhooks hear the others."""

    REQUEST_BOUND = "accelerator-request-bound"
    """Nova's name for both ends of a bind; its status says which."""
    ARQ_BOUND = "arq.bound"
    """The host has the unit of an ARQ ready."""
    ARQ_FAILED = "arq.failed"
    """The host could not make the unit of an ARQ ready, or did not answer in time."""
    LEASE_PENDING = "lease.pending"
    """A lease was made, or goes to another host: its units are claimed and not ready yet."""
    LEASE_ACTIVE = "lease.active"
    """All units of a lease are ready."""
    LEASE_FAILED = "lease.failed"
    """A unit of a lease could not be made ready."""
    LEASE_RENEWED = "lease.renewed"
    """A lease ends at another time than it did, or never."""
    LEASE_EXPIRING = "lease.expiring"
    """The time of a lease is over soon; what happens then is in it (``on_expiry``)."""
    LEASE_EXPIRED = "lease.expired"
    """The time of a lease is over; what it says happens now."""
    LEASE_RELEASING = "lease.releasing"
    """A lease was given back, and somebody may still hold a unit of it."""
    LEASE_CLEANING = "lease.cleaning"
    """Nobody holds a unit of a lease any more that was given back, and they are being cleaned."""
    LEASE_QUARANTINED = "lease.quarantined"
    """A unit of a lease that was given back could not be cleaned; it is not lent again until it is, or a person says so."""
    LEASE_RELEASED = "lease.released"
    """All units of a lease are back."""
    DEVICE_HEALTH = "device.health"
    """A device is better or worse than it was, or its host names it no more (``missing``), or again."""
    DEVICE_STATUS = "device.status"
    """An operator took a device out of service, or put it back."""
    DEVICE_INTENT = "device.intent"
    """An operator wants a device to be something else, or nothing in particular any more."""


@dataclass(frozen=True, slots=True)
class Outlets:
    """Who is told of events in this installation. All its processes read the same configuration, so all say the same.

    :param nova_waits: seconds for which the compute service waits for a bind (its ``arq_binding_timeout``); None: it is not told.
    :param webhook: whether a webhook is told.
    """

    nova_waits: float | None = None
    webhook: bool = False

    @property
    def told(self) -> tuple[Channel, ...]:
        """The channels of those who are told."""
        nova = (Channel.NOVA,) if self.nova_waits is not None else ()
        return (*nova, Channel.WEBHOOK) if self.webhook else nova


@dataclass(frozen=True, slots=True)
class Event:
    """One event on its way to one receiver.

    :param uuid: the same at every attempt, so that a receiver knows a repetition.
    :param about: uuid of the ARQ or lease; events about one thing arrive in order.
    :param body: JSON text, made when it happened.
    :param attempts: how often sending was begun, this time included.
    :param repeating: it is to be sent again even after it was accepted.
    """

    id: int
    uuid: str
    about: str
    type: str
    body: str
    created_at: dt.datetime
    attempts: int = 1
    repeating: bool = False


class Answer(StrEnum):
    """What a receiver made of an event."""

    DELIVERED = "delivered"
    """It was accepted."""
    REFUSED = "refused"
    """It never will be: the receiver does not know the thing, or finds the event malformed. Sending ends."""
    LATER = "later"
    """Not this time: the receiver is away, busy, or not yet ready for it. It is sent again."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one event, and why in words.

    :param after: seconds until the next attempt, if the receiver or its rules name them.
    """

    answer: Answer
    why: str = ""
    after: float | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """One event as it is remembered, for people who ask what became of it.

    :param about: uuid of the ARQ or lease.
    :param body: JSON text of what the receiver is sent.
    :param attempts: how often sending was begun.
    :param due_at: when it is sent next, or was sent last.
    :param outcome: ``delivered``, ``refused``, ``withdrawn`` (it was no longer true) or ``given-up``; None while it is on its way.
    :param problem: what went wrong at the last attempt.
    """

    uuid: str
    channel: str
    type: str
    about: str
    body: str
    attempts: int
    created_at: dt.datetime
    due_at: dt.datetime
    ended_at: dt.datetime | None = None
    outcome: str | None = None
    problem: str | None = None
