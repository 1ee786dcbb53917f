"""``GET /v1/authority`` and ``POST /v1/join``: how a host's agent gets its token."""

from __future__ import annotations

from cantle.api.call import Call
from cantle.engine import join as engine
from cantle.errors import NotFound
from cantle.wire.join import Authority, JoinAnswer, JoinRequest


def authority(call: Call) -> Authority:
    """The certificates of the authority, for everybody: they are no secret, and whoever asks compares their fingerprint.

    :raises NotFound: ``no-authority``.
    """
    pem = call.site.settings.agents_ca
    if pem is None:
        raise NotFound(
            "no-authority",
            "This server was not told which authority signed its certificate ('cantle serve --tls-ca', [agents] ca_file). Join "
            "with --ca-file, or without a fingerprint if the system trusts the authority.",
        )
    return Authority(pem)


def accept(call: Call) -> JoinAnswer:
    """The agent's token, for whoever comes with an invitation."""
    request: JoinRequest = call.body
    call.headers["Cache-Control"] = "no-store"
    return engine.join(call.db, call.who, request)
