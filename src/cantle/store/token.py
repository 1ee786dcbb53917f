"""Tokens: found by their uuid, never by their secret."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, case, insert, or_, select, update

from cantle.model.page import Page
from cantle.model.token import Role, Token, TokenState
from cantle.store.paging import window
from cantle.store.prepared import Prepared
from cantle.store.token_table import tokens
from cantle.store.types import Record, database_now

#: Seconds after which the time of a token's last use is written anew.
USED_EVERY_S = 60

SORT_KEYS = {"created_at": tokens.c.created_at, "name": tokens.c.name, "uuid": tokens.c.uuid, "role": tokens.c.role}

_IN_TIME: ColumnElement[bool] = or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > database_now())
_VALID: ColumnElement[bool] = and_(tokens.c.revoked_at.is_(None), _IN_TIME)
_STATE = case(
    (tokens.c.revoked_at.is_not(None), TokenState.REVOKED), (_IN_TIME, TokenState.VALID), else_=TokenState.EXPIRED
).label("state")
_UNUSED_LATELY = or_(tokens.c.last_used_at.is_(None), tokens.c.last_used_at <= database_now(-USED_EVERY_S))

_ONE = Prepared(select(tokens, _STATE, _UNUSED_LATELY.label("unused_lately")).where(tokens.c.uuid == bindparam("of")))
_LISTED = select(tokens, _STATE)
_USED = update(tokens).where(tokens.c.id == bindparam("of"), _UNUSED_LATELY).values(last_used_at=database_now())
_REVOKE = update(tokens).where(tokens.c.revoked_at.is_(None)).values(revoked_at=database_now())
_REVOKE_ONE = _REVOKE.where(tokens.c.uuid == bindparam("of"))
_USE_UP = _REVOKE_ONE.where(_IN_TIME)
_REVOKE_OF_HOST = _REVOKE.where(
    tokens.c.hostname == bindparam("of"), tokens.c.role.in_(bindparam("roles", expanding=True))
)
_ANY_ADMIN = select(tokens.c.id).where(tokens.c.role == Role.ADMIN, _VALID).limit(1)


def find(connection: Connection, uuid: str) -> Record | None:
    """One token's row, with ``state`` and whether it is ``unused_lately``."""
    found: Record | None = _ONE.first(connection, {"of": uuid})
    return found


def listed(connection: Connection, page: Page | None, *, every: bool) -> list[Token]:
    """Tokens that are valid; with ``every``, all there ever were."""
    query = _LISTED if every else _LISTED.where(_VALID)
    return [token(row) for row in connection.execute(window(connection, query, page, tokens, SORT_KEYS))]


def any_admin(connection: Connection) -> bool:
    """Whether there is a valid token of an administrator."""
    return connection.execute(_ANY_ADMIN).first() is not None


def add(connection: Connection, *, expires_in_s: float | None, **values: Any) -> None:
    """A new token, good for so many seconds of the database's clock; None: for ever."""
    ends = None if expires_in_s is None else database_now(expires_in_s)
    connection.execute(insert(tokens).values(expires_at=ends, **values))


def used(connection: Connection, token_id: int) -> None:
    """It was just used, unless that was written a moment ago."""
    connection.execute(_USED, {"of": token_id})


def revoke(connection: Connection, uuid: str) -> None:
    """Take a token back; nothing changes for one that is taken back already."""
    connection.execute(_REVOKE_ONE, {"of": uuid})


def use_up(connection: Connection, uuid: str) -> bool:
    """Take a token back that is good once; False when somebody else was quicker, or its time is over."""
    return connection.execute(_USE_UP, {"of": uuid}).rowcount == 1


def revoke_of_host(connection: Connection, hostname: str, *roles: Role) -> int:
    """Take back all tokens of a host that have one of these roles; how many."""
    return connection.execute(_REVOKE_OF_HOST, {"of": hostname, "roles": list(roles)}).rowcount


def token(row: Record) -> Token:
    """The value of a row that has the table's columns and ``state``."""
    return Token(
        uuid=row.uuid,
        name=row.name,
        role=Role(row.role),
        state=TokenState(row.state),
        project_id=row.project_id,
        hostname=row.hostname,
        created_by=row.created_by,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )
