"""Uuids as callers write them and as we keep them. One spelling inside: lower case, with hyphens."""

from __future__ import annotations

import re
import uuid

from cantle.errors import BadRequest

_KEPT = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_SPELLINGS = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-fA-F]{32}")


def canonical(text: object) -> str | None:
    """The kept spelling of a uuid given as 36 characters or as 32 hex digits, in either case; None for anything else."""
    if not isinstance(text, str):
        return None
    if _KEPT.fullmatch(text) is not None:  # as nearly everybody writes them: nothing to be made of it
        return text
    if _SPELLINGS.fullmatch(text) is None:
        return None
    return str(uuid.UUID(text))


def checked(text: object, what: str) -> str:
    """Like `canonical`, for a value that must be a uuid.

    :param what: the name of the value for the message, e.g. ``instance_uuid``.
    :raises BadRequest: ``bad-uuid``.
    """
    found = canonical(text)
    if found is None:
        raise BadRequest("bad-uuid", f"{what} is {text!r}, which is no uuid; give all 36 characters of one.", name=what)
    return found


def new() -> str:
    """A random uuid."""
    return str(uuid.uuid4())
