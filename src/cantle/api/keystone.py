"""Keystone tokens, by keystonemiddleware's ``auth_token``. An extra: ``pip install cantle[openstack]``.

``auth_token`` either refuses by itself or delays the decision to us. Delayed, it makes "Keystone is down" look like "your token
is wrong", so that every client would throw good tokens away. So it decides, and what is public goes around it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from cantle.api import routes
from cantle.api.frame import WsgiApp
from cantle.api.identity import KeystoneIdentity
from cantle.api.rules import PUBLIC
from cantle.api.settings import Settings
from cantle.errors import BadConfig, Unauthorized, Unavailable

try:
    import webob.exc
    from keystoneauth1 import exceptions as ksa
    from keystonemiddleware import auth_token
except ImportError as missing:
    raise BadConfig(
        "keystone-not-installed",
        f"[api] auth = keystone needs keystonemiddleware, which is not installed ({missing}). Install 'cantle[openstack]'.",
    ) from missing

#: Seconds a client is told to wait while Keystone is away.
RETRY_AFTER = 10

_CACHE = "cantle.token_cache"
_PUBLIC_PATHS = frozenset(route.path for route in routes.PUBLIC_ROUTES if route.rule == PUBLIC)


def identity(settings: Settings) -> KeystoneIdentity:
    """Reads the caller off what ``auth_token`` wrote."""
    return KeystoneIdentity(settings.service_token_roles)


def protect(app: WsgiApp, settings: Settings) -> WsgiApp:
    """Put ``auth_token`` before ``app``, except for what is public.

    :raises BadConfig: ``keystone-not-configured``.
    """
    conf: Any = settings.keystone
    if conf is None:
        raise BadConfig("keystone-not-configured", "[api] auth = keystone needs a section [keystone_authtoken].")
    protected = _AuthToken(app, {"oslo_config_config": conf, "cache": _CACHE})
    if conf.keystone_authtoken.auth_type is None and conf.keystone_authtoken.auth_section is None:
        raise BadConfig(
            "keystone-not-configured",
            "[keystone_authtoken] auth_type is not set: say how this service itself logs in, for instance auth_type = password "
            "with auth_url, username, password, project_name, user_domain_name and project_domain_name.",
        )
    own_cache = None if conf.keystone_authtoken.memcached_servers else TokenCache()

    def gate(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if (environ.get("PATH_INFO", "").rstrip("/") or "/") in _PUBLIC_PATHS:
            return app(environ, start_response)
        environ[_CACHE] = own_cache
        answered: Iterable[bytes] = protected(environ, start_response)
        return answered

    return gate


class _AuthToken(auth_token.AuthProtocol):  # type: ignore[misc] # the package has no types
    """Refusals become errors of our own, in the shape clients of this API know."""

    def process_request(self, request: Any) -> Any:
        """See the base class.

        :raises Unauthorized: ``token-missing``, ``token-not-valid``. :raises Unavailable: ``keystone-away``.
        """
        try:
            return super().process_request(request)
        except webob.exc.HTTPUnauthorized as refusal:
            code, what = "token-not-valid", "The token, or the service token, is not valid (any more)"
            if not request.user_token:
                code, what = "token-missing", "A token is needed"
            raise Unauthorized(
                code,
                f"{what}; get one from Keystone and send it as X-Auth-Token.",
                authenticate=refusal.headers.get("WWW-Authenticate", "Keystone"),
            ) from None
        except (webob.exc.HTTPServiceUnavailable, ksa.ClientException) as failure:
            self.log.warning("Keystone cannot be asked: %s", failure)
            raise Unavailable(
                "keystone-away",
                "Keystone cannot be asked whether the token is valid; try again soon.",
                retry_after=RETRY_AFTER,
            ) from failure


class TokenCache:
    """Remembers what Keystone said of tokens, in this process, where no memcached is configured.

    ``auth_token`` has a cache of this kind, deprecated for growing without end; this one holds the latest ``size`` tokens.
    Safe for threads.
    """

    def __init__(self, size: int = 1024) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        """What was kept under ``key``, if its time is not over."""
        with self._lock:
            until, value = self._kept.get(key, (0.0, b""))
            if until > _now():
                return value
            self._kept.pop(key, None)
            return None

    def set(self, key: str, value: bytes, time: float = 0) -> None:
        """Keep ``value`` for ``time`` seconds."""
        with self._lock:
            self._kept[key] = (_now() + time, value)
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)


def _now() -> float:
    return time.monotonic()
