"""Joining: from an address, a code that is good once and a fingerprint to a token and an authority to trust.

The fingerprint is of the authority's certificate and comes with the code, by a way that is safe already. So the certificate itself may come
by one that is not: it is asked for over a connection that nobody vouches for, and counts if it has that fingerprint. The code is
sent over a second connection, to a server that this authority vouches for.
"""

from __future__ import annotations

import http.client
import ipaddress
import ssl
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from cantle.agent import joined
from cantle.agent.client import CONNECT, refused
from cantle.agent.joined import Joined
from cantle.errors import BadConfig, CantleError, Forbidden, NotFound, Unavailable
from cantle.model import certificate
from cantle.wire.join import Authority, JoinAnswer, JoinRequest

#: Bytes an answer may have.
_LARGEST = 1 << 20

Answer = TypeVar("Answer")


def join(
    url: str,
    code: str,
    *,
    fingerprint: str | None = None,
    ca: str = "",
    cert: str | None = None,
    key: str | None = None,
    machine: str = "",
) -> Joined:
    """Use the code up. What comes of it is for `cantle.agent.joined.save`.

    :param url: of the agents' listener; ``http`` is for this machine's own alone.
    :param fingerprint: of the authority's certificate, in any usual spelling; None: ``ca``, or whom the system trusts.
    :param ca: certificates to trust, in PEM.
    :param cert: see `cantle.agent.joined.trust`, with ``key``.
    :raises BadConfig: ``agent-server-url``, ``join-needs-tls``, ``ca-file-unusable``, ``client-certificate-unusable``.
    :raises BadRequest: ``bad-fingerprint``.
    :raises Forbidden: ``authority-not-the-one``: the fingerprint is of another; ``token-not-valid``: the code is not good (any more).
    :raises NotFound: ``no-such-path``: there is a server, and it is not the agents' listener.
    :raises Unavailable: ``server-away``, ``server-answer-malformed``, what `cantle.agent.joined.tls_refusal` says, or the server.
    """
    secure = _is_secure(url)
    if fingerprint is not None:
        if not secure:
            raise BadConfig("join-needs-tls", f"{url} has no certificate to have a fingerprint: write https://.")
        ca = _authority(url, certificate.parse_fingerprint(fingerprint), cert, key)
    tls = joined.trust(ca, cert=cert, key=key) if secure else None
    answer = _ask(url, "/v1/join", JoinAnswer, tls=tls, code=code, body=JoinRequest(machine))
    return Joined(url, answer.host, answer.token, ca)


def _is_secure(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadConfig(
            "agent-server-url", f"{url!r} is no address of a server; write e.g. https://cantle.example:6667"
        )
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise BadConfig(
            "join-needs-tls", f"Over {url} everybody on the way could read the host's token: write https://."
        )
    return parts.scheme == "https"


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _authority(url: str, wanted: str, cert: str | None, key: str | None) -> str:
    """The one certificate with that fingerprint, of those that somebody who answers there calls its authority's."""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname = False
    anybody.verify_mode = ssl.CERT_NONE  # what is asked for here is proved by its fingerprint, and no secret is sent
    joined.show(anybody, cert, key)
    told = certificate.each(_ask(url, "/v1/authority", Authority, tls=anybody).certificates)
    found = [one for one in told if certificate.fingerprint(one) == wanted]
    if not found:
        shown = ", ".join(map(certificate.fingerprint, told)) or "none at all"
        raise Forbidden(
            "authority-not-the-one",
            f"The authority of {url} is {shown}, and the fingerprint given is {wanted}. Nothing was sent. Take the "
            "fingerprint anew from 'cantle host invite'; if it stays so, somebody else answers in the server's place.",
        )
    return found[0]


def _ask(
    url: str,
    path: str,
    kind: type[Answer],
    *,
    tls: ssl.SSLContext | None,
    code: str | None = None,
    body: object = None,
) -> Answer:
    """``GET``, or with a body ``POST``."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection = (
        http.client.HTTPConnection(host, parts.port, timeout=CONNECT)
        if tls is None
        else http.client.HTTPSConnection(host, parts.port, timeout=CONNECT, context=tls)
    )
    headers = {"Accept": "application/json"} | ({} if code is None else {"Authorization": f"Bearer {code}"})
    data = None
    if body is not None:
        data, headers["Content-Type"] = msgspec.json.encode(body), "application/json"
    try:
        connection.request("GET" if data is None else "POST", parts.path.rstrip("/") + path, data, headers)
        response = connection.getresponse()
        text = response.read(_LARGEST)
    except (OSError, http.client.HTTPException) as error:
        raise joined.tls_refusal(url, error, connection.sock) or Unavailable(
            "server-away",
            f"no answer from {url}: {str(error) or type(error).__name__}. It must be the agents' listener of a server that runs "
            "(cantle serve --agents-listen).",
        ) from error
    finally:
        connection.close()
    if response.status >= 400:
        raise _said(url, refused(response.status, response.headers.get("Retry-After"), text))
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable("server-answer-malformed", f"{url} is no server of agents: {error}") from error


def _said(url: str, error: CantleError) -> CantleError:
    """A refusal in the words of whoever joins: what the server calls a token is his code, and a path that is not there his address."""
    if error.code == "token-not-valid":
        mend = "It is good once, for 15 minutes. Make another on the server: 'cantle host invite HOST'."
        return Forbidden(error.code, f"The code is not valid (any more). {mend}")
    if isinstance(error, NotFound):
        return NotFound(
            error.code, f"{url} is a server, but not its agents' listener ('cantle serve --agents-listen')."
        )
    return error
