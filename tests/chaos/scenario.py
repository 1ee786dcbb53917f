"""An operation and the end that it must come to, whatever happens on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.chaos.client import Client
from tests.chaos.roles import M40, T4

#: What a client came to know: uuids of what it asked for.
Facts = dict[str, Any]


@dataclass(frozen=True)
class End:
    """The end that was asked for.

    :param states: how many ARQs are in which state, those that hold nothing because their answer was lost (Initial) left out.
    :param lent: how many units are.
    :param leases: how many leases are in which state.
    :param offered: units that each card offers, lent ones included.
    :param nova: what Nova must have heard of each of the client's ARQs, and nothing else.
    :param told: types of events that a webhook must have heard of the client's ARQs and lease.
    :param published: what Placement has of each card: class, and (total, reserved). Nobody looks if None.
    """

    states: Mapping[str, int]
    lent: int = 0
    leases: Mapping[str, int] | None = None
    offered: Mapping[str, int] | None = None
    nova: frozenset[str] = frozenset()
    told: frozenset[str] = frozenset()
    published: Mapping[str, Mapping[str, tuple[int, int]]] | None = None


@dataclass(frozen=True)
class Scenario:
    """One operation.

    :param base: the scenario at whose end it begins; None for an empty database and a new host.
    :param act: what the client does; from what it knew before to what it knows then.
    :param refusing: the card makes no mediated device.
    :param agent_away: the agent does not run until the client has finished.
    :param pooled: identical cards are published as one.
    :param starting: the start of the processes is a part of it.
    """

    name: str
    base: str | None
    act: Callable[[Client, Facts], Facts]
    end: End
    refusing: bool = False
    agent_away: bool = False
    pooled: bool = False
    starting: bool = False

    @property
    def publishing(self) -> bool:
        """Whether there is a Placement."""
        return self.end.published is not None


OFFERED = {T4: 8, M40: 1}


def nothing(_client: Client, facts: Facts) -> Facts:
    """The operation is something else than what a client does."""
    return facts
