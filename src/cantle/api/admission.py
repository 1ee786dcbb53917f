"""Who may knock at all where nobody is asked for a token: this machine, and no web page that its user happens to look at.

A browser on this machine can be made to call a loopback port by any page it shows: directly (it then sends ``Origin``), or
by a name of the page's own that suddenly points to 127.0.0.1 (DNS rebinding: the ``Host`` header carries that name).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from cantle.errors import Forbidden

Admit = Callable[[dict[str, Any]], None]

_MEND = "Use a program, or a page that this service itself serves."


def anyone(environ: dict[str, Any]) -> None:
    """Admit every request: its token decides."""


def this_machine(*, allow_remote: bool, allowed_hosts: tuple[str, ...]) -> Admit:
    """A check that admits requests of this machine only.

    :param allow_remote: admit other machines too; web pages of other sites still are not.
    :param allowed_hosts: names besides the loopback ones that the ``Host`` header may carry.

    The check raises :class:`Forbidden`: ``not-from-here``, ``host-not-allowed``, ``other-origin``.
    """

    def admit(environ: dict[str, Any]) -> None:
        peer = environ.get("REMOTE_ADDR", "")
        if not allow_remote and not _is_loopback(peer):
            raise Forbidden(
                "not-from-here",
                f"Without authentication only this machine is answered, and this request is from '{peer}'. Turn on [api] auth.",
            )
        host = environ.get("HTTP_HOST", "")
        name = _hostname(host)
        if not allow_remote and host and not (name == "localhost" or _is_loopback(name) or name in allowed_hosts):
            raise Forbidden(
                "host-not-allowed",
                f"The Host header says '{host}', which is no name of this machine's loopback. "
                "Use 127.0.0.1, or list the name in [api] allowed_hosts.",
            )
        _refuse_other_sites(environ, host)

    return admit


def _refuse_other_sites(environ: dict[str, Any], host: str) -> None:
    origin = environ.get("HTTP_ORIGIN")
    if origin is not None and origin.partition("://")[2] != host:
        raise Forbidden("other-origin", f"A web page of '{origin}' may not use this service. {_MEND}")
    if environ.get("HTTP_SEC_FETCH_SITE") in ("cross-site", "same-site"):
        raise Forbidden("other-origin", f"A web page of another site may not use this service. {_MEND}")


def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


@lru_cache(maxsize=256)
def _is_loopback(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback
