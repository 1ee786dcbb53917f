"""What the hooks of a host ask its agent over the agent's local socket, when a guest starts and when it has ended.

One question a connection: a line of JSON of at most :data:`LIMIT` bytes, answered by a line of JSON, after which the agent closes. Only
root and the agent's own user are answered. Everything in an answer is how things stand now: nothing has to be asked twice, and a lost
answer costs nothing. docs/attach.md shows a conversation.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

#: Bytes of a question, with its end of line.
LIMIT = 65536
#: Where the agent listens, below the host's root.
SOCKET = "run/cantle/agent.sock"
#: What is lent now, for hooks to read before they ask: a guest that is not in it waits for nobody.
LENT = "run/cantle/lent.json"
#: Seconds that an agent spends on a question at most, whatever patience it names.
PATIENCE = 60.0

_Text = Annotated[str, msgspec.Meta(max_length=256)]
_Few = msgspec.Meta(max_length=256)


class Event(StrEnum):
    """What is asked."""

    LEASES = "leases"
    """Which units are a guest's, and are they ready? Nothing is changed."""
    STARTING = "starting"
    """The guest is about to start: make its units ready now, and answer then."""
    ENDED = "ended"
    """The guest has ended: look at it."""


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question.

    :param kind: of the guest, as of :class:`cantle.model.attachment.GuestKind`.
    :param name: of the guest, as its manager has it.
    :param units: mediated devices' uuids and functions' addresses that the guest's configuration has: they are its own too, whoever put
        them there.
    :param permitted: with a container that is starting: the majors and minors (``226:128``) that it is permitted for ``lease`` so far; None
        when it is not told.
    :param seconds: how long the asker waits.
    """

    event: Event
    kind: _Text
    name: _Text
    units: Annotated[tuple[_Text, ...], _Few] = ()
    lease: _Text = ""
    permitted: Annotated[tuple[_Text, ...], _Few] | None = None
    seconds: Annotated[float, msgspec.Meta(gt=0, le=PATIENCE)] = 10.0


class UnitAnswer(msgspec.Struct, frozen=True):
    """How one of the guest's units stands. ``lease`` is "" for one that whoever borrowed it puts into the guest; code and message say why
    it is not ready."""

    uuid: str
    device: str
    lease: str
    ready: bool
    code: str | None = None
    message: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """All of the guest's units; ``code`` and ``message`` where the question was refused."""

    units: tuple[UnitAnswer, ...] = ()
    code: str | None = None
    message: str | None = None


class Lent(msgspec.Struct, frozen=True):
    """The file :data:`LENT`: guests that leases go into (``lxc:c1``), and units by the names that guests' configurations have for them."""

    guests: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
