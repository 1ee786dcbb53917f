"""What is asked of the daemon of Incus, or of LXD, over its socket (linuxcontainers.org/incus/docs/main/rest-api)."""

from __future__ import annotations

import http.client
import time
from typing import Any
from urllib.parse import urlencode

import msgspec

from cantle.errors import HostError, NotFound
from cantle.kernel.root import Root
from cantle.kernel.unix_http import UnixHTTPConnection

#: Where the daemons listen, below the root: Incus, LXD, LXD as a snap.
SOCKETS = ("var/lib/incus/unix.socket", "var/lib/lxd/unix.socket", "var/snap/lxd/common/lxd/unix.socket")

#: Seconds: of one answer, and for what the daemon does in the background.
_ANSWER = 5.0
BACKGROUND = 60
#: How the daemon puts it that it is starting or stopping the instance, as after a start that failed; seconds to wait for that, and between
#: two tries. It gives up itself after 30.
_BUSY = "is busy running a"
_PATIENCE = 35.0
_MOMENT = 0.5


class _Said(msgspec.Struct):
    """An answer, of any of the three types."""

    type: str = ""
    metadata: Any = None
    operation: str = ""
    error: str = ""


def is_installed(root: Root) -> bool:
    """Whether a daemon keeps its files here, running or not: one that is stopped still has what it was given."""
    return any(root.exists(one.rpartition("/")[0]) for one in SOCKETS)


def call(root: Root, method: str, path: str, body: object = None, etag: str = "") -> tuple[Any, str] | None:
    """What the daemon answers, and its ETag; of what it does in the background, once that is done. None: it is not as it was read now.
    While the daemon starts or stops the instance by itself, that is waited for.

    :raises NotFound: ``guest-not-found``.
    :raises HostError: ``incus-away``, ``incus-refused``.
    """
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return _call_once(root, method, path, body, etag)
        except HostError as error:
            if _BUSY not in error.message or time.monotonic() >= end:
                raise
        time.sleep(_MOMENT)


def _call_once(root: Root, method: str, path: str, body: object, etag: str) -> tuple[Any, str] | None:
    """The same without patience."""
    socket = next((one for one in SOCKETS if root.exists(one)), None)
    if socket is None:
        raise HostError(
            "incus-away", f"neither Incus nor LXD is on this host: there is no {root.host_path(SOCKETS[0])}"
        )
    connection = UnixHTTPConnection(root, socket, _ANSWER if method == "GET" else BACKGROUND + _ANSWER)
    try:
        status, found, said = _exchange(connection, method, path, body, etag)
        if said.type == "async" and status < http.client.BAD_REQUEST:
            waiting = f"{said.operation}/wait?{urlencode({'timeout': BACKGROUND})}"
            status, _, said = _exchange(connection, "GET", waiting)
            if status == http.client.NOT_FOUND:
                raise HostError(
                    "incus-refused", f"Incus does not know any more what came of it: {method} {path}; it is tried again"
                )
            _check_background(method, path, said.metadata)
    except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
        raise HostError("incus-away", f"{root.host_path(socket)} does not answer as Incus does: {error}") from error
    finally:
        connection.close()
    if status == http.client.PRECONDITION_FAILED:
        return None
    if status == http.client.NOT_FOUND:
        name = path.split("/")[3]
        raise NotFound(
            "guest-not-found",
            f"Incus has no container {name} on this host: 'incus list' names those it has",
            guest=f"incus:{name}",
        )
    if status >= http.client.BAD_REQUEST:
        raise HostError("incus-refused", f"Incus refused {method} {path}: {said.error or status}")
    return said.metadata, found


def _exchange(
    connection: UnixHTTPConnection, method: str, path: str, body: object = None, etag: str = ""
) -> tuple[int, str, _Said]:
    """Status, ETag and body."""
    headers = {"Content-Type": "application/json", **({"If-Match": etag} if etag else {})}
    connection.request(method, path, None if body is None else msgspec.json.encode(body), headers)
    answer = connection.getresponse()
    data = answer.read()
    return answer.status, answer.headers.get("ETag", ""), msgspec.json.decode(data, type=_Said)


def _check_background(method: str, path: str, operation: object) -> None:
    """:raises HostError: ``incus-refused``: the operation failed, or goes on."""
    told = operation if isinstance(operation, dict) else {}
    if told.get("status_code") != http.client.OK:
        why = told.get("err") or told.get("status") or "it goes on"
        raise HostError("incus-refused", f"Incus could not finish {method} {path}: {why}")
