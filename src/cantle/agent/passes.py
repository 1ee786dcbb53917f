"""What one pass over a host came to."""

from __future__ import annotations

from dataclasses import dataclass, field

from cantle.wire.work import HandleResult


@dataclass(frozen=True, slots=True)
class Restored:
    """What a start without the server came to.

    :param intents: wishes that were looked at.
    :param units: lent units that were looked at.
    :param failures: one line for each that is not as it should be.
    """

    intents: int = 0
    units: int = 0
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass over the desired state came to.

    :param results: how every unit that the server speaks of stands.
    :param worked: whether anything had to be done, or there is news for a person.
    :param failed: whether something is to be tried again.
    """

    results: list[HandleResult] = field(default_factory=list)
    worked: bool = False
    failed: bool = False
