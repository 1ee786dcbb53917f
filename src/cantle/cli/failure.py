"""What a server says went wrong, as one of ``cantle.errors``: of the accelerator API (contract section 1.2) or our own (RFC 9457)."""

from __future__ import annotations

import http.client
import json
from typing import Any

from cantle import errors

_BY_STATUS: dict[int, type[errors.CantleError]] = {
    400: errors.BadRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    406: errors.NotAcceptable,
    409: errors.Conflict,
    412: errors.PreconditionFailed,
    422: errors.Unprocessable,
    423: errors.Locked,
    428: errors.PreconditionRequired,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
}


def failure(status: int, body: bytes, code: str | None = None) -> errors.CantleError:
    """The error that an answer with this HTTP status and body stands for.

    :param code: the stable code, where the answer's header had one; ``http-<status>`` where nothing says it.
    """
    stated, message = _read_failure(body)
    kind = _BY_STATUS.get(status, errors.CantleError if status >= 500 else errors.BadRequest)
    phrase = http.client.responses.get(status, "")
    return kind(code or stated or f"http-{status}", message or f"The server answered {status} {phrase}.")


def _read_failure(body: bytes) -> tuple[str, str]:
    """Code and message of an error body, "" for what it does not say."""
    document = _object(body)
    if "error_message" in document:  # accelerator API: the string holds JSON once more
        inner = _object(document["error_message"])
        return "", str(inner.get("faultstring") or "")
    return str(document.get("code") or ""), str(document.get("detail") or document.get("title") or "")


def _object(text: object) -> dict[str, Any]:
    if not isinstance(text, (str, bytes)):
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
