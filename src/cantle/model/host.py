"""A host: a machine with an agent."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from enum import StrEnum

from cantle.errors import BadRequest
from cantle.model.numa import Sockets
from cantle.model.problem import Problem

#: A host that was not heard from for so long is taken for down: nothing new is bound there. Agents speak at least every 90 s,
#: and what they say is written at most once a minute.
DOWN_AFTER_S = 180

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Publication:
    """How far a host's devices are published in OpenStack Placement.

    ``synced_at`` is when everything was there as it should be. ``pending`` is what waits for somebody: for a guest to let go of a unit,
    or for an operator. ``code`` and ``error`` are why the last attempt failed; it is tried again.
    """

    synced_at: dt.datetime | None = None
    pending: str | None = None
    code: str | None = None
    error: str | None = None


class HostState(StrEnum):
    """What a host is good for now."""

    UP = "up"
    """Its agent was heard of lately; its devices are lent. It goes by silence, or by a person."""
    DOWN = "down"
    """Its agent was not heard of for a while: nothing is lent there, nothing is deleted. Its agent's next word ends this."""
    DRAINED = "drained"
    """A person wants nothing new lent there; what is lent stays. ``undrain`` ends this."""
    FROZEN = "frozen"
    """What it says and what we know do not fit: nothing is lent and nothing taken back. A person who has looked ends this: ``confirm``."""


#: Seconds by which a host's clock may be off before that is said: certificates and logs are what suffers, nothing of ours does.
CLOCK_MAY_BE_OFF_S = 5.0


@dataclass(frozen=True, slots=True)
class Host:
    """A host as the server remembers it.

    ``up`` is false when its agent was not heard from for `DOWN_AFTER_S` seconds of the database's clock. ``generation`` is that of
    its desired state. ``problems`` are those of its last report, ours about that report included. ``placement`` is None where nothing
    was ever published of it. ``conditions`` are what a person should know of the host as a whole, said by its ``agent`` or by the
    ``server``. ``clock_skew`` is in seconds, its clock less the database's, as of its last report. ``frozen_reason`` is a sentence.
    ``sockets`` are None where its agent does not tell them.
    """

    id: int
    hostname: str
    up: bool
    generation: int
    devices: int
    created_at: dt.datetime
    last_seen: dt.datetime | None = None
    agent_start: str | None = None
    problems: tuple[Problem, ...] = ()
    placement: Publication | None = None
    conditions: tuple[Problem, ...] = ()
    agent_version: str | None = None
    clock_skew: float | None = None
    drained_at: dt.datetime | None = None
    drained_by: str | None = None
    frozen_at: dt.datetime | None = None
    frozen_reason: str | None = None
    sockets: Sockets | None = None

    @property
    def state(self) -> HostState:
        """What it is good for now; the word that most needs a person comes first."""
        if self.frozen_at is not None:
            return HostState.FROZEN
        if not self.up:
            return HostState.DOWN
        return HostState.UP if self.drained_at is None else HostState.DRAINED


def check_name(text: str) -> None:
    """Refuse what cannot be the name of a host.

    :raises BadRequest: ``bad-hostname``.
    """
    if _NAME.fullmatch(text) is None:
        shown = text if len(text) <= 80 else text[:77] + "..."
        raise BadRequest(
            "bad-hostname", f"{shown!r} is no host name: letters, digits, '.', '-' and '_', at most 255 of them."
        )


def same_host(one: str, other: str) -> bool:
    """Whether two spellings mean one host: case does not count, and a short name stands for a qualified one that begins with it.

    Nova binds with the hypervisor's host name, agents report their own, and sites differ in which of the two is qualified
    (contract section 7.1 #10). Two different qualified names never match.
    """
    a, b = one.strip().rstrip(".").lower(), other.strip().rstrip(".").lower()
    if a == b:
        return True
    if "." in a and "." in b:
        return False
    return bool(a) and bool(b) and a.split(".")[0] == b.split(".")[0]
