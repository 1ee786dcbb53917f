"""How a failure looks on the wire: Cyborg's double-encoded body for v2 (contract section 1.2), RFC 9457 for our own paths.

openstacksdk unwraps ``faultstring`` from the inner JSON text, so the odd shape is kept. The stable code also goes into a header.
"""

from __future__ import annotations

import http
from typing import Any

import msgspec

from cantle.errors import CantleError

#: Carries ``CantleError.code`` with every failure; v2 bodies have no place for it.
CODE_HEADER = "X-Cantle-Error-Code"

#: First segments of the paths that are ours.
_OURS = frozenset({"v1", "healthz", "readyz", "healthcheck"})


class Fault(msgspec.Struct, frozen=True):
    """The inner text of a v2 failure."""

    faultcode: str
    faultstring: str
    debuginfo: None = None


class ErrorMessage(msgspec.Struct, frozen=True):
    """The body of a v2 failure; ``error_message`` is a :class:`Fault` as JSON *text*."""

    error_message: str


def render(path: str, error: CantleError, request_id: str) -> tuple[bytes, str]:
    """Body and content type for ``error`` on ``path``."""
    if is_ours(path):
        return _problem(error, request_id), "application/problem+json"
    fault = Fault("Server" if error.status >= 500 else "Client", error.message)
    return msgspec.json.encode(ErrorMessage(msgspec.json.encode(fault).decode())), "application/json"


def is_ours(path: str) -> bool:
    """Whether ``path`` is one of our own rather than the accelerator API's."""
    return path.lstrip("/").partition("/")[0] in _OURS


def headers(error: CantleError) -> dict[str, str]:
    """Headers that go with ``error``: its code, and ``Retry-After``, ``Allow`` or ``WWW-Authenticate`` where it has them."""
    extra = {CODE_HEADER: error.code}
    for name, header in (("retry_after", "Retry-After"), ("allow", "Allow"), ("authenticate", "WWW-Authenticate")):
        if name in error.details:
            extra[header] = str(error.details[name])
    return extra


def internal(request_id: str) -> CantleError:
    """What a client is told of a failure nobody foresaw: nothing but where to find it in the log."""
    return CantleError("internal-error", f"This server failed unexpectedly; its log says more under {request_id}.")


def status_line(status: int) -> str:
    """``404 Not Found``."""
    return f"{status} {http.HTTPStatus(status).phrase}"


def _problem(error: CantleError, request_id: str) -> bytes:
    content: dict[str, Any] = {
        "type": f"urn:cantle:error:{error.code}",
        "title": http.HTTPStatus(error.status).phrase,
        "status": error.status,
        "code": error.code,
        "detail": error.message,
        "request_id": request_id,
    }
    content.update((name, value) for name, value in error.details.items() if name not in content)
    return msgspec.json.encode(content, enc_hook=str)
