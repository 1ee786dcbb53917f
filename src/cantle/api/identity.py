"""From a WSGI environment to the :class:`Identity` that policy and engine see."""

from __future__ import annotations

import dataclasses
import hmac
from typing import Any

from cantle.api.request_id import ENVIRON
from cantle.engine import token
from cantle.errors import Unauthorized
from cantle.model.identity import LOCAL_ADMIN, Identity
from cantle.store.database import Database

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


class TokenIdentity:
    """The caller by one of Cantle's own tokens: ``Authorization: Bearer``, or ``X-Auth-Token`` as OpenStack's clients send theirs."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def __call__(self, environ: dict[str, Any]) -> Identity:
        """The caller.

        :raises Unauthorized: ``token-missing``, ``token-not-valid``.
        """
        text = bearer(environ) or environ.get("HTTP_X_AUTH_TOKEN", "").strip()
        if not text:
            raise Unauthorized(
                "token-missing",
                "A token is needed: send it as 'Authorization: Bearer …' or X-Auth-Token. 'cantle token create' makes one.",
                authenticate="Bearer",
            )
        return dataclasses.replace(token.authenticate(self._db, text), request_id=environ[ENVIRON])


class AgentIdentity:
    """The caller of the agents' listener: by the token of its host, by the secret for any host, or as one that was let in without.

    :param secret: lets whoever has it speak for any host; None: there is none.
    :param open_door: whether a caller without a token is an agent; who may knock at all was decided before.
    """

    def __init__(self, db: Database, secret: str | None, *, open_door: bool) -> None:
        self._db = db
        self._secret = secret.encode() if secret else None
        self._open = open_door

    def __call__(self, environ: dict[str, Any]) -> Identity:
        """The caller.

        :raises Unauthorized: ``agent-token-missing``, ``token-not-valid``.
        """
        text = bearer(environ)
        if not text:
            if not self._open:
                raise Unauthorized(
                    "agent-token-missing",
                    "An agent needs the token of its host: 'cantle host invite' on the server, then 'cantle agent join' here.",
                    authenticate="Bearer",
                )
            return Identity("agent", None, frozenset({"agent"}), request_id=environ[ENVIRON])
        if self._secret is not None and hmac.compare_digest(text.encode("latin-1", "replace"), self._secret):
            return Identity("agent", None, frozenset({"agent"}), request_id=environ[ENVIRON])
        return dataclasses.replace(token.authenticate(self._db, text), request_id=environ[ENVIRON])


def bearer(environ: dict[str, Any]) -> str:
    """The bearer token of a request (RFC 6750), "" for none."""
    kind, _, given = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    return given.strip() if kind.lower() == "bearer" else ""


def _roles(text: str) -> frozenset[str]:
    return frozenset(role.strip().lower() for role in text.split(",") if role.strip())
