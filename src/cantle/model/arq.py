"""An accelerator request (ARQ): one accelerator for one instance, with a state.

Names are Cyborg's, as clients know them (contract section 2). Each state is followed by one sentence: what is true in it, who leaves it.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum

import msgspec

from cantle.model.isolation import Isolation


class ArqState(StrEnum):
    """Where a request is."""

    INITIAL = "Initial"
    """Made from a profile and bound to nothing; a bind or a delete leaves it."""
    BIND_STARTED = "BindStarted"
    """A handle is claimed for it and its host was told; the host's result, an unbind, a delete or the deadline leaves it."""
    BOUND = "Bound"
    """The host has the unit ready for the instance; an unbind or a delete leaves it."""
    UNBOUND = "Unbound"
    """It was bound once and holds nothing now; a new bind or a delete leaves it."""
    BIND_FAILED = "BindFailed"
    """The host could not make the unit ready and the reason is recorded; an unbind or a delete leaves it."""
    UNBIND_FAILED = "UnbindFailed"
    """The host could not take the unit back and the reason is recorded; the host's next success, an unbind or a delete leaves it."""
    DELETING = "Deleting"
    """Known to clients and never set here: a deleted request is gone at once, and the claim on its unit is what the host's result ends."""


#: to-state by from-state: every move the engine makes. Total: each state is a key, a test holds it so. A delete ends any of them.
TRANSITIONS: dict[ArqState, frozenset[ArqState]] = {
    ArqState.INITIAL: frozenset({ArqState.BIND_STARTED, ArqState.UNBOUND}),
    ArqState.BIND_STARTED: frozenset({ArqState.BOUND, ArqState.BIND_FAILED, ArqState.UNBOUND}),
    ArqState.BOUND: frozenset({ArqState.UNBOUND}),
    ArqState.UNBOUND: frozenset({ArqState.BIND_STARTED, ArqState.UNBIND_FAILED}),
    ArqState.BIND_FAILED: frozenset({ArqState.UNBOUND}),
    ArqState.UNBIND_FAILED: frozenset({ArqState.UNBOUND}),
    ArqState.DELETING: frozenset(),
}

#: States a waiting client takes for an answer (Nova's reading, contract section 5.1).
RESOLVED = frozenset({ArqState.BOUND, ArqState.BIND_FAILED, ArqState.DELETING})

#: States from which a bind may start.
BINDABLE = frozenset({ArqState.INITIAL, ArqState.UNBOUND})


class Arq(msgspec.Struct, frozen=True, gc=False):
    """A request as the server remembers it. The profile's group is copied in at creation, so nothing re-reads the profile.

    Lists make thousands: a struct is made in a fifth of the time that a frozen dataclass takes.

    ``group_id`` is the zero-based index of the profile's group; ``resource_class`` and ``required``/``forbidden`` traits say what fits.
    Attach fields are those of the claimed handle while one is claimed and the state is Bound, else "", None and {}.
    ``isolation`` is that of the claimed unit, and known of the ARQs of leases only.
    ``announcing``: it is BindFailed, and the compute service is still being told so (see `shown_state`).
    """

    id: int
    uuid: str
    state: ArqState
    profile_name: str
    group_id: int
    resource_class: str
    project_id: str | None
    created_at: dt.datetime
    updated_at: dt.datetime | None = None
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    hostname: str | None = None
    device_rp_uuid: str | None = None
    instance_uuid: str | None = None
    attach_handle_type: str = ""
    attach_handle_uuid: str | None = None
    attach_handle_info: dict[str, str] = {}
    lease_uuid: str | None = None
    reason_code: str | None = None
    reason: str | None = None
    announcing: bool = False
    isolation: Isolation | None = None

    @property
    def shown_state(self) -> ArqState:
        """The state that clients of the accelerator API see.

        Nova takes a BindFailed that it sees before it began to wait for resolved and builds the guest without the device
        (contract section 5.1): only an event stops it. So a failure is shown once it has had the time to hear the event.
        """
        return ArqState.BIND_STARTED if self.announcing else self.state
