"""The id of a request: ``req-<uuid>``, the caller's own when it has that form (as oslo.middleware does)."""

from __future__ import annotations

import re
import uuid
from typing import Any

HEADER = "x-openstack-request-id"
#: Where the id stands in a WSGI environment; the name oslo.middleware and keystonemiddleware use.
ENVIRON = "openstack.request_id"

_FORM = re.compile(r"req-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)


def assign(environ: dict[str, Any]) -> str:
    """Keep the caller's id if it is well-formed, else make one; store it in ``environ`` and return it."""
    given: str = environ.get("HTTP_X_OPENSTACK_REQUEST_ID", "")
    request_id = given if _FORM.fullmatch(given) else f"req-{uuid.uuid4()}"
    environ[ENVIRON] = request_id
    return request_id
