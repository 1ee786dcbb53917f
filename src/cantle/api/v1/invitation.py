"""``/v1/hosts/{host}/invite``: let a machine join as a host."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cantle.api.call import Call
from cantle.api.v2.resource import stamp
from cantle.engine import join as engine
from cantle.model import certificate


class NewInvitation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client sends. ``expires_in`` in seconds; 15 minutes if it is not said."""

    expires_in: Annotated[float, msgspec.Meta(ge=1)] | None = None


class Shape(msgspec.Struct, frozen=True):
    """An invitation: what ``cantle agent join`` needs.

    ``code`` is told this once, and is good once. ``agents_url`` and ``ca_fingerprint`` are None where the server was not told them.
    """

    uuid: str
    hostname: str
    code: str
    expires_at: str | None
    agents_url: str | None
    ca_fingerprint: str | None


def create(call: Call) -> Shape:
    """A code with which one machine may join as that host, once."""
    new: NewInvitation = call.body
    made, code = engine.invite(call.db, call.who, call.params["host"], new.expires_in)
    settings = call.site.settings
    call.headers["Cache-Control"] = "no-store"
    return Shape(
        uuid=made.uuid,
        hostname=call.params["host"],
        code=code,
        expires_at=stamp(made.expires_at),
        agents_url=settings.agents_url,
        ca_fingerprint=None if settings.agents_ca is None else certificate.fingerprint(settings.agents_ca),
    )
