"""The agent's side of the protocol: three calls over one kept connection, one of which waits."""

from __future__ import annotations

import contextlib
import http
import http.client
import logging
import math
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from cantle.agent import joined
from cantle.errors import BadConfig, BadRequest, CantleError, Conflict, Forbidden, NotFound, Unavailable
from cantle.wire.inventory import InventoryAnswer, InventoryReport
from cantle.wire.work import Results, Work

#: Seconds for a connection to come about.
CONNECT = 5.0
#: Seconds for an answer, beyond those it was asked to wait.
ANSWER = 30.0
#: Bytes an answer may have: thousands of units.
_LARGEST = 32 << 20

_ERRORS: dict[int, type[CantleError]] = {
    400: BadRequest,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
}

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class _Interrupted(ConnectionError):
    """A call that waited was ended by ourselves."""


@dataclass(frozen=True, slots=True)
class _Request:
    """One call.

    :param seconds: for which it may wait for its answer; 0: it does not wait, and is not interrupted.
    :param known: the generation of what one has already; the same again is answered without a body.
    """

    method: str
    path: str
    body: object = None
    seconds: float = 0
    known: int | None = None

    @property
    def data(self) -> bytes | None:
        """The body as it is sent."""
        return None if self.body is None else msgspec.json.encode(self.body)

    @property
    def headers(self) -> dict[str, str]:
        """Its own."""
        return {} if self.known is None else {"If-None-Match": f'"{self.known}"'}


class _Fault(msgspec.Struct):
    """What of an RFC 9457 body is read."""

    code: str = ""
    detail: str = ""


class Client:
    """One agent's connection to its server. One thread calls; any other may :meth:`interrupt` or :meth:`close`.

    :param url: of the agents' listener, ``http://`` or ``https://``, with or without a path.
    :param token: sent as a bearer token.
    :param tls: whom to trust and what to show of oneself; None: whom the system trusts.
    :raises BadConfig: ``agent-server-url``.

    Every call raises :class:`~cantle.errors.Unavailable` when there is no answer (``server-away``, or what
    `cantle.agent.joined.tls_refusal` says), it is none of ours (``server-answer-malformed``) or the server is busy (its own code;
    ``details["retry_after"]`` seconds if it said so), and the class that fits for what it refuses, with its code. What is refused to an
    agent that has nothing to show is a :class:`~cantle.errors.BadConfig`: ``agent-token-missing``, ``client-certificate-needed``.
    """

    def __init__(self, url: str, hostname: str, token: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadConfig(
                "agent-server-url", f"{url!r} is no address of a server; write e.g. https://cantle.example:6667"
            )
        self._connection = (
            http.client.HTTPSConnection(parts.hostname, parts.port, timeout=CONNECT, context=tls)
            if parts.scheme == "https"
            else http.client.HTTPConnection(parts.hostname, parts.port, timeout=CONNECT)
        )
        self._url = url
        self._base = f"{parts.path.rstrip('/')}/v1/hosts/{quote(hostname, safe='')}"
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        self._token = token
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._lock = threading.Lock()
        self._waiting: socket.socket | None = None
        self._interrupted = False
        self._closed = False

    def report(self, report: InventoryReport) -> InventoryAnswer:
        """``PUT inventory``."""
        return self._answer(_Request("PUT", "inventory", report), InventoryAnswer)

    def work(self) -> Work:
        """``GET work``: the desired state as it is."""
        return self._answer(_Request("GET", "work"), Work)

    def later_work(self, generation: int, seconds: float) -> Work | None:
        """``GET work``: as soon as its generation is another than this one, at the latest after so many seconds; None if it is still this
        one then. Tenths are rounded up: an answer a moment before the time would be waited for once more."""
        wait = math.ceil(10 * seconds) / 10
        asked = _Request("GET", f"work?generation={generation}&wait={wait:.1f}", seconds=wait, known=generation)
        status, text = self._call(asked)
        if status == http.HTTPStatus.NOT_MODIFIED:
            return None
        work = self._decoded(asked, text, Work)
        return None if work.generation == generation else work  # an older server says it all once more

    def results(self, results: Results) -> None:
        """``POST results``."""
        self._call(_Request("POST", "results", results))

    def interrupt(self) -> None:
        """End the call that waits or, if none does, the next one that would: it raises ``wait-interrupted``. Other calls go on."""
        with self._lock:
            self._interrupted = True
            if self._waiting is not None:
                with contextlib.suppress(OSError):
                    self._waiting.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End waiting for good: a call that waits now, and every later one that would, raises."""
        self._closed = True
        self.interrupt()

    def disconnect(self) -> None:
        """Give the connection back; the next call makes a new one."""
        self._connection.close()

    def _answer(self, request: _Request, kind: type[Answer]) -> Answer:
        return self._decoded(request, self._call(request)[1], kind)

    def _decoded(self, request: _Request, text: bytes, kind: type[Answer]) -> Answer:
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.DecodeError as error:
            asked = f"{request.method} {request.path}"
            message = f"{self._url} answered {asked} with something else than a {kind.__name__}: {error}"
            raise Unavailable("server-answer-malformed", message) from error

    def _call(self, request: _Request) -> tuple[int, bytes]:
        """Status and body of an answer that is no refusal."""
        try:
            status, retry_after, text = self._kept(request)
        except _Interrupted as error:
            self._connection.close()
            raise Unavailable("wait-interrupted", str(error)) from error
        except (OSError, http.client.HTTPException) as error:
            failed = self._no_answer(error)
            self._connection.close()
            raise failed from error
        if status == http.HTTPStatus.UNAUTHORIZED and self._token is None:
            raise BadConfig(
                "agent-token-missing",
                f"{self._url} wants the token of this host, and the agent has none: run here what 'cantle host invite HOST' prints on the "
                "server ('cantle agent join'), or name a file with the token with --token-file.",
            )
        if status >= 400:
            raise refused(status, retry_after, text)
        return status, text

    def _no_answer(self, error: OSError | http.client.HTTPException) -> CantleError:
        refusal = joined.tls_refusal(self._url, error, self._connection.sock)
        if refusal is None:
            return Unavailable("server-away", f"no answer from {self._url}: {str(error) or type(error).__name__}")
        if refusal.code == "client-certificate-needed" and self._token is None:
            return BadConfig(refusal.code, refusal.message)
        return refusal

    def _kept(self, request: _Request) -> tuple[int, str | None, bytes]:
        """One exchange on the kept connection; on a new one if the server has closed that meanwhile. All calls may be repeated."""
        kept = self._connection.sock is not None
        try:
            return self._exchange(request)
        except _Interrupted:
            raise
        except (ConnectionError, ssl.SSLEOFError, http.client.RemoteDisconnected):
            if not kept:
                raise
            self._connection.close()
            return self._exchange(request)

    def _exchange(self, request: _Request) -> tuple[int, str | None, bytes]:
        if self._connection.sock is None:
            self._connection.timeout = CONNECT
            self._connection.connect()
        self._connection.sock.settimeout(request.seconds + ANSWER)
        if request.seconds:
            self._begin_waiting(self._connection.sock)
        try:
            headers = self._headers | request.headers
            self._connection.request(request.method, f"{self._base}/{request.path}", request.data, headers)
            response = self._connection.getresponse()
            text = response.read(_LARGEST + 1)
        except (OSError, http.client.HTTPException) as error:
            if request.seconds and self._end_waiting():
                raise _Interrupted("the call that waited was ended") from error
            raise
        if request.seconds:
            self._end_waiting()
        if len(text) > _LARGEST:
            raise http.client.HTTPException(f"the answer has more than {_LARGEST} bytes")
        return response.status, response.headers.get("Retry-After"), text

    def _begin_waiting(self, sock: socket.socket) -> None:
        with self._lock:
            if self._interrupted or self._closed:
                self._interrupted = False
                raise _Interrupted("there is something else to do")
            self._waiting = sock

    def _end_waiting(self) -> bool:
        """Whether it was interrupted."""
        with self._lock:
            self._waiting = None
            interrupted, self._interrupted = self._interrupted, False
            return interrupted


def refused(status: int, retry_after: str | None, text: bytes) -> CantleError:
    """The error that an answer of a server with this HTTP status, ``Retry-After`` and body stands for."""
    try:
        fault = msgspec.json.decode(text, type=_Fault)
    except msgspec.DecodeError:
        fault = _Fault()
    code = fault.code or "server-refused"
    message = fault.detail or f"the server answered {status}"
    if status in (429, 502, 503, 504) or status >= 500:
        seconds = int(retry_after) if retry_after is not None and retry_after.isdigit() else None
        return Unavailable(code, message, retry_after=seconds)
    return _ERRORS.get(status, BadRequest)(code, message)
