"""A host joins: an invitation, good once, becomes the token of its agent."""

from __future__ import annotations

from sqlalchemy import Connection

from cantle.engine import audit, token
from cantle.engine.fence import check_protocol
from cantle.model import uuids
from cantle.model.audit import Thing
from cantle.model.identity import Identity
from cantle.model.token import Role, Token
from cantle.store import token as store
from cantle.store.database import Database
from cantle.wire.join import JoinAnswer, JoinRequest


def invite(db: Database, who: Identity, hostname: str, expires_in_s: float | None = None) -> tuple[Token, str]:
    """A code with which one machine may join as that host, once.

    :raises BadRequest: ``bad-hostname``, ``bad-token-expiry``.
    """
    return token.create_token(db, who, name="invitation", role=Role.JOIN, hostname=hostname, expires_in_s=expires_in_s)


def join(db: Database, who: Identity, request: JoinRequest) -> JoinAnswer:
    """Use an invitation up. The tokens that agents of this host had before are revoked: the machine that was invited last is the host.

    :param who: whoever came with the invitation.
    :raises Unauthorized: ``token-not-valid``: somebody else was quicker with it.
    :raises Conflict: ``protocol-mismatch``.
    """
    check_protocol(request.protocol)
    invitation, hostname = who.token_uuid or "", who.hostname or ""
    uuid = uuids.new()

    def work(connection: Connection) -> str:
        if not store.use_up(connection, invitation):
            raise token.refusal()
        revoked = store.revoke_of_host(connection, hostname, Role.AGENT)
        facts = {"token": uuid, "tokens_revoked": str(revoked)}
        audit.record(connection, who, "host.join", Thing(hostname=hostname, facts=facts))
        return token.add(connection, who, uuid, name="agent", role=Role.AGENT, hostname=hostname)

    text = db.run(work)
    audit.note(who, "host.join", hostname, uuid)
    return JoinAnswer(hostname, text)
