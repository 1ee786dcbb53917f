"""Webhooks in the form of Standard Webhooks (https://www.standardwebhooks.com, specification 1.0): signed, and never redirected.

The standard library's client is enough: one POST at a time to one fixed place. What it lacks, an end to the whole call however slowly
the receiver talks, is added here.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from cantle import __version__
from cantle.model.event import Answer, Channel, Event, Verdict

#: Seconds that a call may take from connecting to the status line.
CALL_S = 10.0
#: The longest pause that a receiver may ask for with Retry-After.
LONGEST_AFTER_S = 3600.0
#: Bytes of an answer's body that are read: none of it matters but its being short lets the connection end in order.
MOST_ANSWER_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Target:
    """Where webhooks go.

    :param url: http or https, fixed by the operator.
    :param secrets: keys to sign with, at least one; each makes a signature, so that a receiver can move from one to the next.
    :param keep_trying_s: after that an event is given up.
    """

    url: str
    secrets: tuple[bytes, ...]
    keep_trying_s: float = 72 * 3600.0
    call_s: float = CALL_S


def sign(secret: bytes, uuid: str, timestamp: int, body: bytes) -> str:
    """``v1,<base64 of HMAC-SHA256 over "id.timestamp.body">``."""
    digest = hmac.new(secret, f"{uuid}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


class WebhookReceiver:
    """Sends events one by one.

    :param clock: seconds since 1970, for the signed timestamp.
    """

    channel = Channel.WEBHOOK
    #: With every call as slow as allowed, a batch ends well within a courier's claim.
    batch = 5

    def __init__(self, target: Target, *, clock: Callable[[], float] = time.time) -> None:
        self.patience_s = target.keep_trying_s
        self._target = target
        self._clock = clock
        parts = urlsplit(target.url)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._host, self._port, self._tls = parts.hostname or "", parts.port, parts.scheme == "https"
        self._context = ssl.create_default_context() if self._tls else None

    def send(self, events: Sequence[Event]) -> list[Verdict]:
        """One verdict for each event, in the same order. Once the receiver is away, the rest of the batch is not tried."""
        verdicts: list[Verdict] = []
        for event in events:
            try:
                verdicts.append(self._one(event))
            except (OSError, http.client.HTTPException) as error:
                away = Verdict(Answer.LATER, f"it cannot be reached: {str(error) or type(error).__name__}")
                return verdicts + [away] * (len(events) - len(verdicts))
        return verdicts

    def _one(self, event: Event) -> Verdict:
        body, timestamp = event.body.encode(), int(self._clock())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"cantle/{__version__}",
            "webhook-id": event.uuid,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(sign(secret, event.uuid, timestamp, body) for secret in self._target.secrets),
        }
        connection = self._connection()
        try:
            connection.connect()
            with _ended_after(connection.sock, self._target.call_s):
                connection.request("POST", self._path, body, headers)
                answer = connection.getresponse()
                answer.read(MOST_ANSWER_BYTES)
            return _verdict(answer.status, answer.headers.get("Retry-After", ""))
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._context is not None:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=self._target.call_s, context=self._context
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self._target.call_s)


def _verdict(status: int, retry_after: str) -> Verdict:
    """2xx is accepted, all else is tried again: a redirect too, since following one would hand a signed event to another place."""
    if 200 <= status < 300:
        return Verdict(Answer.DELIVERED)
    after = min(float(retry_after), LONGEST_AFTER_S) if retry_after.isascii() and retry_after.isdigit() else None
    moved = ", a redirect, which is not followed: set [webhook] url to the new place" if 300 <= status < 400 else ""
    return Verdict(Answer.LATER, f"it answered {status}{moved}", after=after)


@contextlib.contextmanager
def _ended_after(sock: socket.socket, seconds: float) -> Iterator[None]:
    """Cut the connection after so long: a timeout of a socket begins anew with each byte that a slow receiver sends.

    :raises TimeoutError: it was cut, whatever could be read until then.
    """
    late = threading.Event()

    def cut() -> None:
        late.set()
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError(f"it did not answer within {seconds:g} s")
