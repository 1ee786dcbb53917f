"""Placement's refusals as errors."""

from __future__ import annotations

from typing import Any

from cantle.errors import CantleError, Conflict, NotFound, Unavailable

#: Answers besides those from 500 on that say nothing about what was asked: Placement, its database or the way there is in trouble.
_AWAY = frozenset({408, 413, 429})


class Fault(Unavailable):
    """Placement failed inside (``placement-away``): its database is away, as a rule, or it cannot do what was asked of this provider."""


class GenerationConflict(Conflict):
    """The provider was changed since it was read (``placement-conflict``): read it again."""


class InUse(Conflict):
    """Somebody has an allocation of what would go away (``placement-in-use``)."""


class NameTaken(Conflict):
    """Another provider has the name, or this uuid exists already (``provider-name-taken``)."""


class UnknownName(Conflict):
    """Placement does not know a trait or resource class that was named (``placement-refused``)."""


def refusal(answer: Any, what: str, version: str) -> CantleError:
    """What an answer that is no good one says.

    :param what: method and path.
    :param version: the microversion that it was asked in.
    """
    code, detail = _said(answer)
    status = answer.status_code
    words = f"Placement answered {status} to {what}: {detail.rstrip('.')}."
    mend = _mend(status, what)
    if mend is not None:
        kind = Fault if status == 500 else Unavailable  # the one that may be of what was asked
        return kind("placement-away", f"{words} {mend}", answer=status)
    if status == 409:
        return _conflict(code, words)
    if status == 404:
        return NotFound("provider-gone", f"{words} The keeper makes it again.")
    if status == 406:
        return CantleError("placement-refused", f"{words} This Placement is too old for API {version}: upgrade it.")
    return UnknownName("placement-refused", words) if status == 400 else CantleError("placement-refused", words)


def ends_attempt(error: CantleError) -> bool:
    """Whether nothing else is worth trying now: Placement is away, and not for one provider only."""
    return isinstance(error, Unavailable) and not isinstance(error, Fault)


def _mend(status: int, what: str) -> str | None:
    """What to do about an answer that says nothing about what was asked; None for one that does."""
    if status == 401:
        return (
            "It does not take our login: see username, password and project of [placement]. If Keystone takes them ('openstack token "
            "issue'), see Placement's own [keystone_authtoken], and the clocks of both."
        )
    if status == 403:
        return "The user of [placement] needs the role service, or admin, in its project."
    if status == 404 and what.startswith("GET /resource_providers?"):
        return "So that is not Placement's address: see endpoint_override of [placement], else the catalog."
    if status >= 500 or status in _AWAY:
        return "The keeper tries again by itself; if this lasts, see the logs of Placement, of its database and of what is in front of it."
    return None


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
