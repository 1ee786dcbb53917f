"""What joining leaves on a host: which server, which name, which token, and whom to trust. One file, for its owner alone."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import msgspec

from cantle.agent import whole_file
from cantle.agent.desired import DesiredFile
from cantle.errors import BadConfig, HostError, Unavailable

FILE = "joined.json"


class Joined(msgspec.Struct, frozen=True):
    """:param server: URL of the agents' listener. :param ca: certificates to trust, in PEM; "" for those of the system."""

    server: str
    host: str
    token: str
    ca: str = ""


def load(directory: Path) -> Joined | None:
    """What was kept there; None where nothing was.

    :raises HostError: ``agent-state-unreadable``. :raises BadConfig: ``joined-unusable``.
    """
    file = directory / FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=Joined)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HostError(
            "agent-state-unreadable", f"cannot read {file}: {error.strerror}", path=str(file), errno=error.errno
        ) from error
    except msgspec.DecodeError as error:
        raise BadConfig("joined-unusable", f"{file} cannot be understood ({error}); join again.") from error


def save(directory: Path, joined: Joined) -> Path:
    """Keep it there, in place of what was kept before; the file.

    :raises HostError: ``agent-state-unwritable``.
    """
    file = directory / FILE
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        whole_file.replace(file, msgspec.json.format(msgspec.json.encode(joined), indent=2) + b"\n")
    except OSError as error:
        raise HostError(
            "agent-state-unwritable", f"cannot write {file}: {error.strerror}", path=str(file), errno=error.errno
        ) from error
    return file


def trust(ca: str = "", *, cert: str | None = None, key: str | None = None) -> ssl.SSLContext:
    """Trust what these certificates signed, or what the system trusts; show a certificate of one's own if the server asks for one.

    :param ca: in PEM; "" for the system's.
    :param cert: file with the certificate of one's own, in PEM; ``key``: with its key, where that is not in the same file.
    :raises BadConfig: ``ca-file-unusable``, ``client-certificate-unusable``.
    """
    try:
        context = ssl.create_default_context(cadata=ca or None)
    except ssl.SSLError as error:
        raise BadConfig("ca-file-unusable", f"The certificates to trust cannot be used: {error}.") from error
    show(context, cert, key)
    return context


def show(context: ssl.SSLContext, cert: str | None, key: str | None) -> None:
    """Show this certificate to a server that asks for one.

    :raises BadConfig: ``client-certificate-unusable``.
    """
    if cert is None:
        return
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise BadConfig(
            "client-certificate-unusable", f"The certificate {cert}, or its key, cannot be used: {error}."
        ) from error


def tls_refusal(url: str, error: Exception, connection: socket.socket | None) -> Unavailable | None:
    """What a failed call says of TLS: ``server-not-trusted``, ``client-certificate-needed``; None where it says nothing of that.

    The alert is that of RFC 8446, section 6.2: certificate_required. A server that speaks TLS 1.2 at best only says that it failed.

    :param connection: that of the call, not closed yet.
    """
    said = _last_words(connection) if isinstance(error, ConnectionError | ssl.SSLEOFError) else error
    if isinstance(said, ssl.SSLCertVerificationError):
        return Unavailable(
            "server-not-trusted",
            f"Nobody we trust vouches for the server at {url}: {said.verify_message}. Give --ca-fingerprint or --ca-file, and the "
            "name that stands in its certificate.",
        )
    if isinstance(said, ssl.SSLError) and said.reason == "TLSV13_ALERT_CERTIFICATE_REQUIRED":
        return Unavailable(
            "client-certificate-needed",
            f"The server at {url} asks for a certificate of this host's own, and none was given: name one with --cert and --key.",
        )
    return None


def _last_words(connection: socket.socket | None) -> ssl.SSLError | None:
    """Why a server has hung up on one that was still sending: the alert waits to be read."""
    if isinstance(connection, ssl.SSLSocket):
        try:
            connection.recv(1)
        except ssl.SSLError as alert:
            return alert
        except OSError:
            return None
    return None


def carry_over(directory: Path, before: str, after: str) -> bool:
    """Give the memory of a host that goes by another name now to that name; whether there was one. Where the new name has a memory of its
    own already, both are left alone.

    :raises Conflict: ``agent-already-running``: its agent still uses it. :raises HostError: ``agent-state-unwritable``.
    """
    old, new = directory / before, directory / after
    if before == after or not old.is_dir() or new.exists():
        return False
    with DesiredFile(old).held():
        try:
            old.rename(new)
        except OSError as error:
            raise HostError(
                "agent-state-unwritable", f"cannot rename {old}: {error.strerror}", path=str(old), errno=error.errno
            ) from error
    return True
