"""How a host's agent gets its token: ``GET /v1/authority``, then ``POST /v1/join`` with a code that is good once as the bearer token."""

from __future__ import annotations

import msgspec

from cantle.wire.protocol import PROTOCOL


class Authority(msgspec.Struct, frozen=True):
    """The certificates, in PEM, of the authority that signed the server's: for whoever knows their fingerprint already."""

    certificates: str


class JoinRequest(msgspec.Struct, frozen=True):
    """``machine`` is as in an inventory report."""

    machine: str = ""
    protocol: int = PROTOCOL


class JoinAnswer(msgspec.Struct, frozen=True):
    """The host that the agent speaks for from now on, and its token, which is told this once."""

    host: str
    token: str
