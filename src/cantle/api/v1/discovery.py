"""``/v1``: what our own API is, public."""

from __future__ import annotations

import msgspec

from cantle.api.call import Call
from cantle.api.v2.resource import Link


class VersionDocument(msgspec.Struct, frozen=True):
    """``GET /v1``."""

    id: str
    status: str
    links: list[Link]


def version_1(call: Call) -> VersionDocument:
    """Version 1."""
    return VersionDocument("v1", "CURRENT", [Link(f"{call.base}/v1/", "self")])
