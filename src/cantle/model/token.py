"""Bearer tokens: who may call where there is no Keystone, and which agent speaks for which host.

The text of a token is ``cantle_<id>_<secret>``: a prefix that scanners of secrets find in a repository or a log; the token's uuid without
its hyphens, which is no secret and finds the row; and 256 random bits in base64url, of which only a hash is kept.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum

from cantle.errors import BadRequest
from cantle.model.uuids import canonical

#: Random bytes in a secret.
SECRET_BYTES = 32

#: How a token looks; for scanners of secrets as well as for us.
PATTERN = re.compile(r"cantle_([0-9a-f]{32})_([A-Za-z0-9_-]{43})")

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@-]{0,98}[A-Za-z0-9])?")


class Role(StrEnum):
    """What a token is for. One role a token: give each program its own."""

    ADMIN = "admin"
    """Everything, in all projects."""
    MANAGER = "manager"
    """See hosts and devices, and all that a member may."""
    MEMBER = "member"
    """Borrow and give back in its project."""
    READER = "reader"
    """See what its project has."""
    SERVICE = "service"
    """Another service, such as a compute service: binds for instances of any project."""
    AGENT = "agent"
    """The agent of one host: reports, asks for work, sends results, for that host alone."""
    JOIN = "join"
    """Good once, for a little while: makes the agent's token of one host (``cantle agent join``)."""


#: The roles a caller with a token has: as Keystone's, each implies those below it.
IMPLIED: dict[Role, frozenset[str]] = {
    Role.ADMIN: frozenset({"admin", "manager", "member", "reader"}),
    Role.MANAGER: frozenset({"manager", "member", "reader"}),
    Role.MEMBER: frozenset({"member", "reader"}),
    Role.READER: frozenset({"reader"}),
    Role.SERVICE: frozenset({"service"}),
    Role.AGENT: frozenset({"agent"}),
    Role.JOIN: frozenset({"join"}),
}

#: Roles whose tokens act for one host.
OF_A_HOST = frozenset({Role.AGENT, Role.JOIN})


class TokenState(StrEnum):
    """Whether a token is still good."""

    VALID = "valid"
    """It is accepted until it expires or is revoked."""
    EXPIRED = "expired"
    """Its time is over, by the database's clock; nothing brings it back."""
    REVOKED = "revoked"
    """Somebody took it back, or it was good once and was used; nothing brings it back."""


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token. Its secret is not.

    :param name: who or what has it; the caller's name in leases and in the audit trail. Several tokens may have one name.
    :param project_id: the project it is scoped to; None for tokens of a host.
    :param hostname: the host it acts for; None for all others.
    :param last_used_at: to the minute; None for one never used, and for agents' (their host says when it was heard of).
    """

    uuid: str
    name: str
    role: Role
    state: TokenState
    project_id: str | None
    hostname: str | None
    created_by: str
    created_at: dt.datetime
    expires_at: dt.datetime | None = None
    revoked_at: dt.datetime | None = None
    last_used_at: dt.datetime | None = None


def text_of(uuid: str, secret: str) -> str:
    """The token as its holder keeps it."""
    return f"cantle_{uuid.replace('-', '')}_{secret}"


def parse(text: str) -> tuple[str, str] | None:
    """uuid and secret of a token; None for what is none."""
    found = PATTERN.fullmatch(text)
    if found is None:
        return None
    uuid = canonical(found[1])
    return None if uuid is None else (uuid, found[2])


def digest(secret: str) -> str:
    """What is kept of a secret: SHA-256, in hex.

    A slow, salted hash (argon2, scrypt) is for passwords, which people choose and others guess. Nobody guesses 256 random bits, however
    fast he may try, and no two tokens have the same, so there is nothing for a salt to tell apart; and it would cost each call
    tens of milliseconds.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def check_name(text: str) -> None:
    """Refuse what cannot be the name of a token.

    :raises BadRequest: ``bad-token-name``.
    """
    if _NAME.fullmatch(text) is None:
        shown = text if len(text) <= 80 else text[:77] + "..."
        raise BadRequest(
            "bad-token-name", f"{shown!r} is no name for a token: letters, digits, '.', '-', '_' and '@', at most 100."
        )
