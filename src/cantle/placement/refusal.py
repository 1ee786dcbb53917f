"""Placement's refusals as errors."""

from __future__ import annotations

from typing import Any

from cantle.errors import CantleError, Conflict, NotFound, Unavailable

#: Answers that say nothing about what was asked: Placement, its database or the way there is in trouble.
_AWAY = frozenset({408, 413, 429, 502, 503, 504})


class GenerationConflict(Conflict):
    """The provider was changed since it was read (``placement-conflict``): read it again."""


class InUse(Conflict):
    """Somebody has an allocation of what would go away (``placement-in-use``)."""


class NameTaken(Conflict):
    """Another provider has the name, or this uuid exists already (``provider-name-taken``)."""


class UnknownName(Conflict):
    """Placement does not know a trait or resource class that was named (``placement-refused``)."""


def refusal(answer: Any, what: str) -> CantleError:
    """What an answer that is no good one says.

    :param what: method and path.
    """
    code, detail = _said(answer)
    status = answer.status_code
    words = f"Placement answered {status} to {what}: {detail}"
    if status in (401, 403):
        mend = "The user of [placement] needs the role service, or admin, in its project."
        return Unavailable("placement-away", f"{words} {mend}")
    if status == 404 and what.startswith("GET /resource_providers?"):
        mend = "So that is not Placement's address: see endpoint_override of [placement], else the catalog."
        return Unavailable("placement-away", f"{words} {mend}")
    if status in _AWAY:
        return Unavailable("placement-away", words)
    if status == 409:
        return _conflict(code, words)
    if status == 404:
        return NotFound("provider-gone", words)
    return UnknownName("placement-refused", words) if status == 400 else CantleError("placement-refused", words)


def _conflict(code: str, words: str) -> Conflict:
    if code.endswith((".inuse", ".cannot_delete_parent")):
        return InUse("placement-in-use", words)
    if code.endswith(".duplicate_name"):
        return NameTaken("provider-name-taken", words)
    return GenerationConflict("placement-conflict", words)


def _said(answer: Any) -> tuple[str, str]:
    """Code and words of a refusal, in one line."""
    try:
        error = answer.json()["errors"][0]
        code, detail = str(error.get("code", "")), str(error.get("detail", ""))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return "", "(no explanation)"
    return code, " ".join(detail.split())[:500]
