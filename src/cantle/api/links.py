"""Where clients reach us: what the links in answers start with."""

from __future__ import annotations

import re
from typing import Any

from cantle.api.settings import Settings
from cantle.errors import BadRequest

_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+)*", re.ASCII)


def base(environ: dict[str, Any], settings: Settings) -> str:
    """The URL of the application's root, without a trailing slash: ``https://cloud.example/accelerator``.

    From the option when set; else from the request: scheme, ``Host`` and mount point (WSGI's ``SCRIPT_NAME``), with the
    ``X-Forwarded-*`` headers in their place if a proxy is trusted to set them.

    :raises BadRequest: ``bad-host-header``.
    """
    if settings.public_endpoint:
        return settings.public_endpoint
    scheme = environ["wsgi.url_scheme"]
    host = environ.get("HTTP_HOST") or f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    prefix = environ.get("SCRIPT_NAME", "").rstrip("/")
    if settings.trust_forwarded:
        scheme = _nearest(environ, "PROTO") or scheme
        host = _nearest(environ, "HOST") or host
        prefix = (_nearest(environ, "PREFIX") or "").rstrip("/") + prefix
    if scheme not in ("http", "https") or not _HOST.fullmatch(host) or not _PREFIX.fullmatch(prefix):
        raise BadRequest(
            "bad-host-header",
            f"No link can be made from scheme '{scheme}', host '{host}' and mount point '{prefix}'. "
            "Send a plain host name and port, or set [api] public_endpoint.",
        )
    return f"{scheme}://{host}{prefix}"


def _nearest(environ: dict[str, Any], name: str) -> str | None:
    """The value the nearest proxy wrote: it appends, so the last one is the only one that is not the client's word."""
    values: str | None = environ.get(f"HTTP_X_FORWARDED_{name}")
    return values.rpartition(",")[2].strip() if values else None
