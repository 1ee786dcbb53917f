"""A host's whole desired state: ``GET /v1/hosts/{host}/work?generation=G&wait=SECONDS``, and the results sent back.

Level-triggered: each answer is complete, so a lost call, a restart or a reboot needs no special case.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from cantle.model.attach_handle import AttachType
from cantle.wire.intent import DeviceIntent
from cantle.wire.protocol import PROTOCOL


class Guest(msgspec.Struct, frozen=True):
    """Where the host's agent puts a unit when it is ready, and takes it from when it is not wanted any more. ``kind`` and ``name`` as of
    `cantle.model.attachment.Attachment`; ``lease`` is a uuid: what one lease has in a guest enters and leaves together. ``stop``: the lease
    is over and says that its guest is stopped before the unit is taken out; an older agent takes the unit out and stops nobody.
    ``start``: the guest is started, where it does not run, when it has all of its lease for the first time; an older agent leaves it as it
    is."""

    kind: str
    name: str
    lease: str
    stop: bool = False
    start: bool = False


class WantedHandle(msgspec.Struct, frozen=True):
    """One unit. ``device`` is the address of its device on the host; ``uuid`` the handle's (and the mdev's). ``guest`` None: whoever
    borrowed it attaches it. An agent that knows no guests says ``ready`` without ``entered``, and the server does not take that for done.
    ``loan`` names whom it is lent to (the uuid of an accelerator request): under another one, whoever holds the unit already is a stranger.
    """

    uuid: str
    device: str
    attach_type: AttachType
    attach_info: dict[str, str]
    guest: Guest | None = None
    loan: str | None = None


class Work(msgspec.Struct, frozen=True):
    """The desired state. ``wanted`` units must be ready; ``unwanted`` ones must be taken back, after which the server may lend
    them again. Anything in neither list is not ours to touch. ``generation`` only grows; an answer with the generation asked
    about means: nothing changed while we waited.

    ``intents`` has what each device shall be, at most one entry per device. They come before the units: no unit of a device is made
    ready before its intent is applied, and while one is not applied the server asks for no new unit of that device.

    A host that has followed a higher generation than this one's is *frozen*: it prepares and removes nothing, says so in a condition of
    its reports (``host-frozen``, with ``InventoryReport.generation``), and stays so over restarts and whatever generations come, until
    a person has confirmed that it may go on. ``confirmed`` is the host's generation at which a person did that, 0 for never: a host that
    froze at that one or an earlier goes on with this work. The server that takes the confirmation raises ``generation`` above it."""

    generation: int
    wanted: tuple[WantedHandle, ...] = ()
    unwanted: tuple[WantedHandle, ...] = ()
    intents: tuple[DeviceIntent, ...] = ()
    confirmed: int = 0
    protocol: int = PROTOCOL


class Outcome(StrEnum):
    """What became of one unit."""

    READY = "ready"
    """It is there and can be given to its guest."""
    ABSENT = "absent"
    """It is taken back and nobody holds it."""
    FAILED = "failed"
    """The step failed; code and message say why. The agent tries again when asked again."""
    CLEANING = "cleaning"
    """Nobody holds it, and it is being cleaned for the next one: a later result says what came of it."""
    QUARANTINED = "quarantined"
    """Nobody holds it, and it could not be cleaned; code and message say why. The agent tries again when asked again."""


class Cleaning(msgspec.Struct, frozen=True):
    """What was done to a unit between two holders. ``method`` is a word: that of the reset (``flr``, ``bus``, ``pm``, …), ``removed`` for
    a mediated device, ``none`` where nothing was done; ``done`` is it all in words. A reset does not prove that memory was wiped."""

    method: str
    done: str


class HandleResult(msgspec.Struct, frozen=True):
    """The outcome for one unit. ``code`` and ``message`` are given with ``failed``; with ``ready`` they say what a person should know of
    a unit that is lent: ``guest-gone``, ``guest-stopped``, ``unit-not-in-guest``. Without them it is as it should be. ``cleaning`` comes
    with ``absent``; ``entered`` with ``ready``: the unit is in the guest that was named with it."""

    uuid: str
    outcome: Outcome
    code: str | None = None
    message: str | None = None
    cleaning: Cleaning | None = None
    entered: bool = False


class Results(msgspec.Struct, frozen=True):
    """``POST /v1/hosts/{host}/results``. ``generation`` is that of the Work acted upon. A ``ready`` or ``failed`` for a unit that is
    no longer wanted, and an ``absent`` for one that is wanted again, are ignored by the server."""

    agent_start: str
    generation: int
    results: tuple[HandleResult, ...]
    protocol: int = PROTOCOL
