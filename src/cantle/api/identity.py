"""From a WSGI environment to the :class:`Identity` that policy and engine see."""

from __future__ import annotations

import dataclasses
import hmac
from typing import Any

from cantle.api.request_id import ENVIRON
from cantle.errors import Unauthorized
from cantle.model.identity import LOCAL_ADMIN, Identity

#: Where the caller stands in a WSGI environment once known, for the log.
IDENTITY = "cantle.identity"


def local_admin(environ: dict[str, Any]) -> Identity:
    """The caller where nobody is asked. Headers that name users or roles are never looked at."""
    return dataclasses.replace(LOCAL_ADMIN, request_id=environ[ENVIRON])


class KeystoneIdentity:
    """Reads what keystonemiddleware's ``auth_token`` wrote; it also removed whatever the client sent under those names."""

    def __init__(self, service_token_roles: frozenset[str]) -> None:
        self._service_roles = service_token_roles

    def __call__(self, environ: dict[str, Any]) -> Identity:
        """The caller.

        :raises Unauthorized: ``token-missing``, should a request get here that ``auth_token`` has not confirmed.
        """
        if environ.get("HTTP_X_IDENTITY_STATUS") != "Confirmed":
            raise Unauthorized("token-missing", "A token is needed; get one from Keystone and send it as X-Auth-Token.")
        return Identity(
            user_id=environ.get("HTTP_X_USER_ID", ""),
            project_id=environ.get("HTTP_X_PROJECT_ID") or None,
            roles=_roles(environ.get("HTTP_X_ROLES", "")),
            is_service=environ.get("HTTP_X_SERVICE_IDENTITY_STATUS") == "Confirmed"
            and not self._service_roles.isdisjoint(_roles(environ.get("HTTP_X_SERVICE_ROLES", ""))),
            request_id=environ[ENVIRON],
        )


class AgentIdentity:
    """The caller of the agents' listener: whoever knows the token; without one, whoever was admitted."""

    def __init__(self, token: str | None) -> None:
        self._token = token.encode() if token else None

    def __call__(self, environ: dict[str, Any]) -> Identity:
        """The caller, with the role ``agent``.

        :raises Unauthorized: ``agent-token-missing``, ``agent-token-wrong``.
        """
        if self._token is not None:
            kind, _, given = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
            if kind.lower() != "bearer" or not given:
                raise Unauthorized("agent-token-missing", "An agent's bearer token is needed.", authenticate="Bearer")
            if not hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._token):
                raise Unauthorized(
                    "agent-token-wrong", "The agent's bearer token is not this server's.", authenticate="Bearer"
                )
        return Identity("agent", None, frozenset({"agent"}), request_id=environ[ENVIRON])


def _roles(text: str) -> frozenset[str]:
    return frozenset(role.strip().lower() for role in text.split(",") if role.strip())
