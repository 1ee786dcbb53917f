"""Talks to a Cantle server, both APIs, with the standard library only: a command's start-up time matters more than features.

Every failure becomes one of ``cantle.errors``, whichever API it came from: the accelerator API's doubly encoded body
(contract section 1.2), our own ``application/problem+json`` (RFC 9457), or no answer at all.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import click
from click.core import ParameterSource

from cantle import __version__, errors
from cantle.cli import credentials
from cantle.cli.failure import failure
from cantle.cli.progress import Progress

DEFAULT_URL = "http://127.0.0.1:6666"

#: Header that carries an error's code with both APIs.
CODE_HEADER = "X-Cantle-Error-Code"

#: Seconds a request may take. A waiting request gets its wait on top.
TIMEOUT = 30.0

#: What no address has in it as it stands.
_UNFIT = re.compile(r"[\s\x00-\x1f\x7f]")


class Client:
    """A server, and the one connection to it, which is made for the first request and kept for the next ones.

    :param url: ``http://host:port`` or ``https://…``, a path prefix included where the API is mounted below one.
    :param verbose: whether each request is told on standard error; its token is not.
    :param token: sent with each request, or ``proof``: what else says who asks, looked up anew for each request.
    :param ca_file: certificates to trust in place of the system's.
    :param verify: False takes any certificate, unless there is a ``ca_file``.
    :raises BadRequest: ``bad-url``. :raises BadConfig: ``ca-file-unusable``.
    """

    def __init__(
        self,
        url: str,
        *,
        verbose: bool = False,
        token: str | None = None,
        proof: Callable[[], Mapping[str, str]] | None = None,
        ca_file: str | None = None,
        verify: bool = True,
    ) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise _bad_url(url) from error
        host = parts.hostname or ""
        if parts.scheme not in ("http", "https") or not _is_hostname(host) or not _is_path(parts.path):
            raise _bad_url(url)
        self.url = url.rstrip("/")
        self._prefix = parts.path.rstrip("/")
        self._verbose = verbose
        self._proof = proof or (lambda: {} if token is None else {"Authorization": f"Bearer {token}"})
        if parts.scheme == "https":
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=TIMEOUT, context=_trust(ca_file, verify=verify)
            )
        else:
            self._connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)

    def get(self, path: str, query: Mapping[str, object] | None = None, *, wait: float = 0) -> Any:
        """The answer's JSON. ``query`` values of None are left out. ``wait`` is how long the server was asked to wait (seconds)."""
        asked = {key: value for key, value in (query or {}).items() if value is not None}
        return self._request("GET", path + _query(asked), wait=wait)

    def pages(self, path: str, name: str, query: Mapping[str, object] | None = None) -> Iterator[dict[str, Any]]:
        """The items of a collection of ours, page after page as they are used.

        :param name: of the list in an answer: ``devices``.
        """
        asked = {key: value for key, value in (query or {}).items() if value is not None}
        following: str | None = _query(asked)[1:]
        while following is not None:
            answer = self._request("GET", path + (f"?{following}" if following else ""))
            yield from answer[name]
            links = answer.get(f"{name}_links") or []
            # Only what was asked, not where: the server may know itself under another address than we do.
            following = urlsplit(links[0]["href"]).query if links else None

    def lines(
        self, path: str, query: Mapping[str, object] | None = None, *, last_event_id: str | None, silence: float
    ) -> Iterator[str]:
        """The lines of an answer that comes piece by piece (``text/event-stream``), until the server ends it.

        :param last_event_id: of the last event seen.
        :param silence: seconds without a byte after which it is given up.
        :raises Unavailable: ``server-unavailable``, ``server-timeout``. All else that a request raises.
        """
        asked = {key: value for key, value in (query or {}).items() if value is not None}
        headers = {"Accept": "text/event-stream", "User-Agent": f"cantle/{__version__}", **self._proof()}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        try:
            self._set_timeout(silence)
            self._connection.request("GET", self._prefix + path + _query(asked), headers=headers)
            response = self._connection.getresponse()
            if response.status >= 400:
                raise failure(response.status, response.read(), response.getheader(CODE_HEADER))
            while line := response.readline():
                yield line.decode("utf-8", "replace").rstrip("\r\n")
        except (OSError, http.client.HTTPException) as error:
            raise self._away(error) from error
        finally:
            self._connection.close()

    def post(self, path: str, body: object = None) -> Any:
        """The answer's JSON, None for an empty one."""
        return self._request("POST", path, body)

    def create(self, path: str, body: object) -> Any:
        """The answer's JSON. Where the answer is lost on its way the request is sent once more, under the same Idempotency-Key, so that
        nothing is made twice."""
        extra = {"Idempotency-Key": str(uuid.uuid4())}
        try:
            return self._request("POST", path, body, extra=extra)
        except errors.Unavailable as error:
            lost = isinstance(error.__cause__, (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected))
            if not lost:
                raise
            return self._request("POST", path, body, extra=extra)

    def put(self, path: str, body: object, headers: Mapping[str, str]) -> Any:
        """The answer's JSON."""
        return self._request("PUT", path, body, extra=headers)

    def delete(self, path: str, headers: Mapping[str, str] | None = None) -> None:
        """Delete what the path names."""
        self._request("DELETE", path, extra=headers)

    def close(self) -> None:
        """Close the connection; the next request makes a new one."""
        self._connection.close()

    def _request(
        self, method: str, path: str, body: object = None, *, wait: float = 0, extra: Mapping[str, str] | None = None
    ) -> Any:
        headers = {
            "Accept": "application/json",
            "User-Agent": f"cantle/{__version__}",
            "OpenStack-API-Version": "accelerator 2.3",
            **self._proof(),
            **(extra or {}),
        }
        content = None if body is None else _text(json.dumps(body, ensure_ascii=False)).encode()
        if content is not None:
            headers["Content-Type"] = "application/json"
        started = time.monotonic()
        try:
            self._set_timeout(TIMEOUT + wait)
            with Progress(f"Waiting for {self.url}") if not wait else contextlib.nullcontext():
                self._connection.request(method, self._prefix + path, content, headers)
                response = self._connection.getresponse()
                answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise self._away(error) from error
        if self._verbose:
            spent = (time.monotonic() - started) * 1000
            click.echo(f"{method} {self.url}{path} -> {response.status} in {spent:.0f} ms", err=True)
        if response.status >= 400:
            raise failure(response.status, answer, response.getheader(CODE_HEADER))
        return self._decode(answer)

    def _set_timeout(self, seconds: float) -> None:
        self._connection.timeout = seconds
        if self._connection.sock is not None:
            self._connection.sock.settimeout(seconds)

    def _decode(self, answer: bytes) -> Any:
        if not answer:
            return None
        try:
            return json.loads(answer)
        except ValueError as error:
            raise errors.Unavailable(
                "not-a-cantle-server",
                f"{self.url} answered something that is not JSON, so it is no Cantle server. "
                "Check --url or CANTLE_URL.",
            ) from error

    def _away(self, error: Exception) -> errors.Unavailable:
        if isinstance(error, TimeoutError):
            return errors.Unavailable(
                "server-timeout",
                f"{self.url} did not answer within {self._connection.timeout:.0f} s. Try again; if it stays so, its log says why.",
                url=self.url,
            )
        if isinstance(error, ssl.SSLCertVerificationError):
            return errors.Unavailable(
                "server-not-trusted",
                f"Nobody we trust vouches for the server at {self.url}: {error.verify_message}. Name its authority with --ca-file or "
                "CANTLE_CA_FILE, and the server as its certificate does.",
                url=self.url,
            )
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        return errors.Unavailable(
            "server-unavailable",
            f"No Cantle server answers at {self.url} ({why}). Start one with 'cantle serve', "
            f"or name another with --url or CANTLE_URL.{self._hint(error)}",
            url=self.url,
        )

    def _hint(self, error: Exception) -> str:
        """What hangs up on plain HTTP is often a server that has a certificate."""
        is_hung_up = isinstance(error, ConnectionResetError | BrokenPipeError | http.client.HTTPException)
        return (
            " One that has a certificate wants https:// there." if is_hung_up and self.url.startswith("http://") else ""
        )


def connect() -> Client:
    """A client for the server that the running command's ``--url`` or CANTLE_URL names, or a cloud's catalog; closed when the command
    ends. Who asks is said by a token of ours where there is one, else by the cloud's Keystone where one is named."""
    context = click.get_current_context()
    root = context.find_root()
    options = root.params
    url, verbose, ca_file = options.get("url"), bool(options.get("verbose")), options.get("ca_file")
    # CANTLE_TOKEN in front of one command is said of that command; the file may have been exported long before, and be an administrator's.
    is_exported = root.get_parameter_source("token_file") is ParameterSource.ENVIRONMENT
    token = (credentials.find(None) if is_exported else None) or credentials.find(options.get("token_file"))
    if token is None and credentials.cloud_is_named(options.get("os_cloud")):
        from cantle.cli import cloud  # noqa: PLC0415 - an extra, and slow to load

        found = cloud.find(options.get("os_cloud"), url)
        trusted = ca_file or found.ca_file
        client = Client(found.url, verbose=verbose, proof=found.proof, ca_file=trusted, verify=found.verify)
        if trusted is None and not found.verify:
            click.echo(
                "warning: by 'verify: false' (or 'insecure') of this cloud nobody vouches for its servers; whoever stands between could "
                "read the password and the token. Take that away and name their authority with 'cacert:'; for Cantle, --ca-file will do.",
                err=True,
            )
    else:
        client = Client(url or DEFAULT_URL, verbose=verbose, token=token, ca_file=ca_file)
    context.call_on_close(client.close)
    return client


def _trust(ca_file: str | None, *, verify: bool) -> ssl.SSLContext | None:
    """The certificates to trust; None for the system's."""
    if ca_file is None:
        if verify:
            return None
        anybody = ssl.create_default_context()
        anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
        return anybody
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise errors.BadConfig(
            "ca-file-unusable", f"{ca_file} holds no certificates that can be used: {error}."
        ) from error


def segment(text: str) -> str:
    """A name or uuid as one segment of a path, whatever it holds.

    :raises click.UsageError: it is empty, as of a variable that is not set: the path would be that of the whole list.
    :raises NotFound: ``no-such-name``: nothing of ours has a slash in its name, and servers differ in what they make of one.
    """
    if not text:
        raise click.UsageError("The name or uuid is empty.")
    if "/" in text:
        raise errors.NotFound(
            "no-such-name", f"There is nothing named {text!r}: no name or uuid has a slash in it. Write it without."
        )
    return quote(_text(text), safe="")


def _query(asked: Mapping[str, object]) -> str:
    """The arguments behind their question mark; nothing for none."""
    return "?" + urlencode({key: _text(str(value)) for key, value in asked.items()}) if asked else ""


def _text(text: str) -> str:
    """The same text. Python hands on the bytes of a command line that are no UTF-8 as halves of surrogate pairs: no server takes those.

    :raises click.UsageError: it has some.
    """
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise click.UsageError(f"{text!a} is not text in UTF-8.")
    return text


def _is_hostname(name: str) -> bool:
    """Whether a connection to it can be tried at all: Python's own failures with names that can not are of many kinds."""
    try:
        return not _UNFIT.search(name) and bool(name.encode("idna"))
    except UnicodeError:
        return False


def _is_path(path: str) -> bool:
    return path.isascii() and not _UNFIT.search(path)


def _bad_url(url: str) -> errors.BadRequest:
    return errors.BadRequest(
        "bad-url", f"{url!r} is no address of a server: write it as http://host:port, for example {DEFAULT_URL}."
    )
