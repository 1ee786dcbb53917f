"""Microversions of the accelerator API, 2.0 to 2.3 (contract section 1.4).

What changed:

2.0  the first; also what a caller without the header gets.
2.1  a bind may carry ``/project_id``, if the caller is an administrator.
2.2  a device profile may be fetched by name besides uuid.
2.3  ``status`` in devices.
"""

from __future__ import annotations

import re
from functools import lru_cache

from cantle.errors import NotAcceptable

HEADER = "OpenStack-API-Version"
SERVICE = "accelerator"
LOWEST = 0
HIGHEST = 3
MINIMUM = f"2.{LOWEST}"
MAXIMUM = f"2.{HIGHEST}"

PROJECT_IN_BIND = 1
PROFILE_BY_NAME = 2
DEVICE_STATUS = 3

_VERSION = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})", re.ASCII)


@lru_cache(maxsize=64)  # all clients of a cloud send the same few
def requested(header: str | None) -> int:
    """The minor version asked for by an ``OpenStack-API-Version`` header: 2 for ``accelerator 2.2`` or a bare ``2.2``.

    The header may list several services, ``compute 2.90, accelerator 2.1``; one that lists others only is refused as
    Cyborg does (it reads it as a version it cannot parse).

    :raises NotAcceptable: ``microversion-not-served``.
    """
    if header is None:
        return LOWEST
    wanted = _for_this_service(header)
    if wanted == "latest":
        return HIGHEST
    match = _VERSION.fullmatch(wanted)
    if match is None or match[1] != "2" or not LOWEST <= int(match[2]) <= HIGHEST:
        raise NotAcceptable(
            "microversion-not-served",
            f"The header '{HEADER}: {header}' asks for a version this service does not have. "
            f"It serves '{SERVICE} {MINIMUM}' to '{SERVICE} {MAXIMUM}'; leave the header out for {MINIMUM}.",
            min_version=MINIMUM,
            max_version=MAXIMUM,
        )
    return int(match[2])


def _for_this_service(header: str) -> str:
    """The version text meant for us; the whole header if none is, which then fails to parse."""
    bare = header.strip()
    for part in header.split(","):
        words = part.split()
        if len(words) == 2 and words[0].lower() == SERVICE:
            return words[1].lower()
        if len(words) == 1:
            bare = words[0].lower()
    return bare


def needed(minor: int, least: int, what: str) -> None:
    """Refuse what a later microversion brought.

    :raises NotAcceptable: ``microversion-too-low``.
    """
    if minor < least:
        raise NotAcceptable(
            "microversion-too-low",
            f"{what} needs microversion 2.{least}; this request is at 2.{minor}. Send '{HEADER}: {SERVICE} 2.{least}'.",
            min_version=MINIMUM,
            max_version=MAXIMUM,
        )
