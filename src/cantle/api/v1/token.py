"""``/v1/tokens``: who may call, where there is no Keystone."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from cantle.api.call import Call
from cantle.api.v1 import collection
from cantle.api.v1.hostname import NamesHost
from cantle.api.v2.resource import Link, stamp
from cantle.engine import token as engine
from cantle.model.token import Role, Token
from cantle.model.uuids import checked


class TokenQuery(collection.CollectionQuery, frozen=True, kw_only=True):
    """``include_ended``: also those that are expired or revoked."""

    include_ended: bool = False


class NewToken(NamesHost, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client sends. ``hostname`` (also as ``host``) for the roles ``agent`` and ``join`` alone; ``expires_in`` in
    seconds, never without."""

    name: str
    role: Role
    project_id: str | None = None
    expires_in: Annotated[float, msgspec.Meta(ge=1)] | None = None


class Shape(msgspec.Struct, frozen=True):
    """A token on the wire; the words are those of :class:`cantle.model.token.Token`."""

    uuid: str
    name: str
    role: str
    state: str
    project_id: str | None
    hostname: str | None
    created_by: str
    created_at: str | None
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class Made(Shape, frozen=True):
    """A new token; ``token`` is its text, which is told this once."""

    token: str


class Listed(msgspec.Struct, frozen=True):
    """A list of tokens."""

    tokens: list[Shape]
    tokens_links: list[Link] = []


def list_all(call: Call) -> dict[str, Any]:
    """Tokens, without their secrets."""
    asked: TokenQuery = call.query
    limits = collection.page(call)
    found = engine.list_tokens(call.db, every=asked.include_ended, page=limits)
    return collection.answer(call, "tokens", limits, found, _shape, kind=Shape, marker=lambda token: token.uuid)


def show(call: Call) -> Shape:
    """One token, valid or over."""
    return _shape(engine.get_token(call.db, _uuid(call)))


def create(call: Call) -> Made:
    """A new token. Its text is in this answer and nowhere else, so nobody on the way may keep the answer."""
    new: NewToken = call.body
    made, text = engine.create_token(
        call.db,
        call.who,
        name=new.name,
        role=new.role,
        project_id=new.project_id,
        hostname=new.named(),
        expires_in_s=new.expires_in,
    )
    call.headers["Cache-Control"] = "no-store"
    return Made(**_fields(made), token=text)


def revoke(call: Call) -> None:
    """Take a token back; from now on it is refused everywhere."""
    engine.revoke_token(call.db, call.who, _uuid(call))


def _uuid(call: Call) -> str:
    return checked(call.params["uuid"], "The token's uuid")


def _shape(token: Token) -> Shape:
    return Shape(**_fields(token))


def _fields(token: Token) -> dict[str, Any]:
    return {
        "uuid": token.uuid,
        "name": token.name,
        "role": token.role,
        "state": token.state,
        "project_id": token.project_id,
        "hostname": token.hostname,
        "created_by": token.created_by,
        "created_at": stamp(token.created_at),
        "expires_at": stamp(token.expires_at),
        "revoked_at": stamp(token.revoked_at),
        "last_used_at": stamp(token.last_used_at),
    }
