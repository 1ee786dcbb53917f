"""Tokens: who a caller is, and making them and taking them back."""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable

from sqlalchemy import Connection

from cantle.engine import absent, audit
from cantle.engine.clock import now
from cantle.errors import BadRequest, CantleError, Unauthorized
from cantle.model import host, uuids
from cantle.model import token as model
from cantle.model.audit import Thing
from cantle.model.identity import LOCAL_PROJECT, Identity
from cantle.model.page import Page
from cantle.model.token import OF_A_HOST, Role, Token, TokenState
from cantle.store import token as store
from cantle.store.database import Database

#: For how long an invitation is good unless its maker says otherwise: as long as it takes to walk over to the other terminal.
JOIN_S = 900
#: And at most: it may lie in a shell's history.
LONGEST_JOIN_S = 24 * 3600
#: The longest time of a token that ends at all.
LONGEST_S = 3650 * 24 * 3600

#: Who makes the first token, before there is anybody: whoever may write to the database.
BOOTSTRAP = Identity("bootstrap", None, frozenset({"admin"}))

_log = logging.getLogger(__name__)

#: Compared with where no token was found, so that finding none takes as long as finding another.
_NO_HASH = "0" * 64


def refusal() -> Unauthorized:
    """The one answer to a token that does not hold, whatever is wrong with it: who tries tokens learns nothing of how near he was."""
    return Unauthorized(
        "token-not-valid",
        "The token is not valid (any more). Ask an administrator for a new one.",
        authenticate="Bearer",
    )


def authenticate(db: Database, text: str) -> Identity:
    """Who has this token: one statement, and one more a minute to note that it is in use.

    :raises Unauthorized: ``token-not-valid``: it is none, none of ours, altered, expired or revoked. All look the same.
    """
    parsed = model.parse(text)
    uuid, secret = parsed or ("", "")
    with db.look() as connection:
        row = store.find(connection, uuid)
    same = hmac.compare_digest(model.digest(secret), _NO_HASH if row is None else row.secret_hash)
    if row is None or parsed is None or not same or row.state != TokenState.VALID:
        raise refusal()
    role = Role(row.role)
    if row.unused_lately and role not in OF_A_HOST:
        _note_use(db, row.id)
    return Identity(
        user_id=row.name,
        project_id=row.project_id,
        roles=model.IMPLIED[role],
        is_service=role is Role.SERVICE,
        token_uuid=row.uuid,
        hostname=row.hostname,
    )


def _note_use(db: Database, token_id: int) -> None:
    try:
        db.run(lambda connection: store.used(connection, token_id))
    except CantleError as error:  # a database that cannot be written to for the moment is no reason to refuse a reader
        _log.info("the use of a token could not be noted: %s", error.message)


def list_tokens(db: Database, *, every: bool = False, page: Page | None = None) -> list[Token]:
    """Tokens that are valid; with ``every``, also those that are over.

    :raises BadRequest: ``bad-sort-key``, ``marker-not-found``.
    """
    with db.read() as connection:
        return store.listed(connection, page, every=every)


def get_token(db: Database, uuid: str) -> Token:
    """One token, valid or over.

    :raises NotFound: ``token-not-found``.
    """
    with db.read() as connection:
        row = store.find(connection, uuid)
    if row is None:
        raise absent.token(uuid)
    return store.token(row)


def create_token(
    db: Database,
    who: Identity,
    *,
    name: str,
    role: Role,
    project_id: str | None = None,
    hostname: str | None = None,
    expires_in_s: float | None = None,
) -> tuple[Token, str]:
    """A new token, and its text, which is told this once.

    :param project_id: None for `LOCAL_PROJECT`; tokens of a host have none.
    :param hostname: needed for the roles ``agent`` and ``join``, and for them alone.
    :param expires_in_s: None: never; an invitation (``join``) after `JOIN_S`.
    :raises BadRequest: ``bad-token-name``, ``bad-token-host``, ``bad-token-project``, ``bad-token-expiry``, ``bad-hostname``.
    """
    model.check_name(name)
    _check_host(role, hostname)
    _check_project(role, project_id)
    if role is Role.JOIN and expires_in_s is None:
        expires_in_s = JOIN_S
    _check_expiry(role, expires_in_s)
    uuid = uuids.new()

    def work(connection: Connection) -> tuple[Token, str]:
        text = add(
            connection,
            who,
            uuid,
            name=name,
            role=role,
            project_id=project_id,
            hostname=hostname,
            expires_in_s=expires_in_s,
        )
        row = store.find(connection, uuid)
        assert row is not None  # noqa: S101 - it was just made
        return store.token(row), text

    made, text = db.run(work)
    audit.note(who, "token.create", uuid, name, role, *filter(None, [hostname]))
    return made, text


def add(
    connection: Connection,
    who: Identity,
    uuid: str,
    *,
    name: str,
    role: Role,
    project_id: str | None = None,
    hostname: str | None = None,
    expires_in_s: float | None = None,
    secret: str | None = None,
) -> str:
    """Write a token, in a transaction of the caller's; its text. Without a ``secret`` a new one is made."""
    secret = secret or secrets.token_urlsafe(model.SECRET_BYTES)
    store.add(
        connection,
        expires_in_s=expires_in_s,
        uuid=uuid,
        name=name,
        role=role,
        project_id=None if role in OF_A_HOST else project_id or LOCAL_PROJECT,
        hostname=hostname,
        secret_hash=model.digest(secret),
        created_by=who.user_id,
        created_at=now(),
    )
    about = Thing(hostname=hostname, facts={"token": uuid, "name": name, "role": str(role)})
    audit.record(connection, who, "token.create", about)
    return model.text_of(uuid, secret)


def first_admin(db: Database, keep: Callable[[str], None]) -> bool:
    """Make an administrator's token if there is no valid one; whether one was made.

    :param keep: puts the token's text where its holder finds it. Called before the token is good, so that dying in between leaves no
        token that nobody knows.
    """
    with db.read() as connection:
        if store.any_admin(connection):
            return False
    uuid, secret = uuids.new(), secrets.token_urlsafe(model.SECRET_BYTES)
    keep(model.text_of(uuid, secret))
    db.run(lambda connection: add(connection, BOOTSTRAP, uuid, name="admin", role=Role.ADMIN, secret=secret))
    audit.note(BOOTSTRAP, "token.create", uuid, "admin", Role.ADMIN)
    return True


def revoke_token(db: Database, who: Identity, uuid: str) -> None:
    """Take a token back, from now on: no process remembers tokens. One that is over already stays so.

    :raises NotFound: ``token-not-found``.
    """
    get_token(db, uuid)

    def work(connection: Connection) -> None:
        store.revoke(connection, uuid)
        audit.record(connection, who, "token.revoke", Thing(facts={"token": uuid}))

    db.run(work)
    audit.note(who, "token.revoke", uuid)


def _check_host(role: Role, hostname: str | None) -> None:
    if (role in OF_A_HOST) != (hostname is not None):
        needs = "needs the one host it is for" if role in OF_A_HOST else "is not of one host; leave the host out"
        raise BadRequest("bad-token-host", f"A token with the role {role} {needs}.", role=role)
    if hostname is not None:
        host.check_name(hostname)


def _check_project(role: Role, project_id: str | None) -> None:
    if project_id is None:
        return
    if role in OF_A_HOST or not 1 <= len(project_id) <= 255 or not project_id.isprintable():
        raise BadRequest(
            "bad-token-project",
            f"A token with the role {role} cannot have the project {project_id[:80]!r}: tokens of hosts have none, and "
            "a project's id is 1 to 255 printable characters.",
        )


def _check_expiry(role: Role, seconds: float | None) -> None:
    most = LONGEST_JOIN_S if role is Role.JOIN else LONGEST_S
    if seconds is not None and not 1 <= seconds <= most:
        raise BadRequest(
            "bad-token-expiry", f"A token with the role {role} is good for 1 to {most} seconds, not for {seconds:g}."
        )
