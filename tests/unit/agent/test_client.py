"""The agent's calls over real sockets, whatever answers at the other end."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest
import trustme
from tests.unit.agent.service import until

from cantle.agent.client import Client
from cantle.errors import BadConfig, BadRequest, CantleError, Conflict, Forbidden, NotFound, Unavailable
from cantle.wire.inventory import InventoryAnswer, InventoryReport
from cantle.wire.work import Results, Work

REPORT = InventoryReport("start", "digest", ())

Connect = Callable[..., Client]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Clients that are disconnected in the end."""
    clients: list[Client] = []

    def connect(url: str, hostname: str = "node1", token: str | None = None) -> Client:
        clients.append(Client(url, hostname, token))
        return clients[-1]

    yield connect
    for client in clients:
        client.disconnect()


@contextmanager
def answering(*answers: bytes | None) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives these answers one after another and lists the requests; None closes the connection without one."""
    listener = socket.create_server(("127.0.0.1", 0))
    requests: list[bytes] = []
    left = list(answers)

    def serve() -> None:
        while left:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                while left and (request := _request(connection)):
                    requests.append(request)
                    answer = left.pop(0)
                    if answer is None:
                        break
                    connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
    finally:
        listener.close()


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return b""
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")), 0
    )
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def http(status: str, body: object = None, *headers: str) -> bytes:
    data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def test_the_calls_are_those_of_the_protocol_over_one_connection(connect: Connect) -> None:
    work = Work(3)
    with answering(
        http("200 OK", InventoryAnswer(3, True)), http("200 OK", work), http("200 OK", Work(4)), http("204 No Content")
    ) as (url, requests):
        client = connect(url, "node 1", "secret")
        assert client.report(REPORT) == InventoryAnswer(3, True)
        assert client.work() == work
        assert client.later_work(3, 1.25) == Work(4)
        client.results(Results("start", 3, ()))
    lines = [request.split(b"\r\n")[0] for request in requests]
    assert lines == [
        b"PUT /v1/hosts/node%201/inventory HTTP/1.1",
        b"GET /v1/hosts/node%201/work HTTP/1.1",
        b"GET /v1/hosts/node%201/work?generation=3&wait=1.3 HTTP/1.1",
        b"POST /v1/hosts/node%201/results HTTP/1.1",
    ]
    assert all(b"Authorization: Bearer secret\r\n" in request for request in requests)
    assert requests[0].endswith(msgspec.json.encode(REPORT))


@pytest.mark.parametrize("answer", [http("304 Not Modified"), http("200 OK", Work(3))])
def test_the_same_generation_again_is_nothing_new_whether_the_server_says_it_short_or_whole(
    connect: Connect, answer: bytes
) -> None:
    with answering(answer, http("200 OK", Work(4))) as (url, requests):
        client = connect(url)
        assert client.later_work(3, 1) is None
        assert client.later_work(3, 1) == Work(4), "over the same connection"
    assert b'If-None-Match: "3"\r\n' in requests[0]


def test_a_connection_that_the_server_closed_meanwhile_is_made_anew(connect: Connect) -> None:
    with answering(http("200 OK", Work(1)), None, http("200 OK", Work(2))) as (url, _):
        client = connect(url)
        assert client.work().generation == 1
        assert client.work().generation == 2


def test_what_a_later_server_says_besides_is_left_out_of_account(connect: Connect) -> None:
    with answering(http("200 OK", {"generation": 7, "from_the_future": {"a": 1}})) as (url, _):
        assert connect(url).work().generation == 7


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (http("409 Conflict", {"code": "agent-fenced", "detail": "another"}), Conflict, "agent-fenced"),
        (http("404 Not Found", {"code": "host-not-found", "detail": "x"}), NotFound, "host-not-found"),
        (http("401 Unauthorized", {"code": "bad-token", "detail": "x"}), Forbidden, "bad-token"),
        (http("400 Bad Request", {"code": "bad-hostname", "detail": "x"}), BadRequest, "bad-hostname"),
        (http("413 Too Large", b"<html>"), BadRequest, "server-refused"),
        (http("502 Bad Gateway", b"<html>"), Unavailable, "server-refused"),
        (http("500 Oops", {"code": "internal-error", "detail": "x"}), Unavailable, "internal-error"),
        (http("200 OK", b"<html>a page</html>"), Unavailable, "server-answer-malformed"),
        (http("200 OK", {"generation": "seven"}), Unavailable, "server-answer-malformed"),
        (http("200 OK", {"surprise": 1}), Unavailable, "server-answer-malformed"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", Unavailable, "server-away"),
        (None, Unavailable, "server-away"),
    ],
)
def test_every_other_answer_is_an_error_with_a_code(
    answer: bytes | None, kind: type[CantleError], code: str, connect: Connect
) -> None:
    with answering(answer) as (url, _), pytest.raises(kind) as caught:
        connect(url, token="a-token").work()
    assert type(caught.value) is kind
    assert caught.value.code == code


def test_a_busy_server_says_how_long_to_leave_it_alone(connect: Connect) -> None:
    answer = http("503 Busy", {"code": "no-waiting-place", "detail": "x"}, "Retry-After: 4")
    with answering(answer) as (url, _), pytest.raises(Unavailable) as caught:
        connect(url).work()
    assert caught.value.details["retry_after"] == 4


def test_a_server_that_is_not_there_is_away(connect: Connect) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable, match="no answer from") as caught:
            connect(f"http://127.0.0.1:{deaf.getsockname()[1]}").report(REPORT)
    assert caught.value.code == "server-away"


@pytest.mark.parametrize("url", ["", "cantle", "ftp://cantle", "http://", "unix:///run/x"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadConfig) as caught:
        Client(url, "node1")
    assert caught.value.code == "agent-server-url"


@pytest.mark.parametrize("end", [Client.interrupt, Client.close])
def test_a_waiting_call_can_be_ended_from_outside(end: Callable[[Client], None], connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = connect(f"http://127.0.0.1:{silent.getsockname()[1]}")
        errors: list[CantleError] = []

        def wait() -> None:
            try:
                client.later_work(1, 60)
            except CantleError as error:
                errors.append(error)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(10) == b"GET /v1/ho"
            end(client)
            thread.join(20)
    assert [error.code for error in errors] == ["wait-interrupted"]


def test_a_hint_that_comes_before_the_wait_ends_that_one_only(connect: Connect) -> None:
    with answering(http("200 OK", Work(1)), http("200 OK", Work(2))) as (url, requests):
        client = connect(url)
        client.interrupt()
        with pytest.raises(Unavailable) as caught:
            client.later_work(1, 60)
        assert caught.value.code == "wait-interrupted"
        assert requests == []
        assert client.work().generation == 1
        assert client.later_work(1, 60) == Work(2)


class _RacedLock:
    """Before it is taken for the second time, somebody else takes it and interrupts."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._taken = 0

    def __enter__(self) -> None:
        self._taken += 1
        if self._taken == 2:
            self._client.interrupt()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_hint_just_as_the_server_closes_the_kept_connection_ends_the_wait_on_the_next_one(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was forgotten with the wait that had failed, and the next one lasted its time: a minute."""
    with answering(http("200 OK", Work(1)), None, http("200 OK", Work(2))) as (url, _):
        client = connect(url)
        client.work()
        monkeypatch.setattr(client, "_lock", _RacedLock(client))
        with pytest.raises(Unavailable) as caught:
            client.later_work(1, 60)
        assert caught.value.code == "wait-interrupted"


def test_a_closed_client_waits_no_more_but_can_still_tell(connect: Connect) -> None:
    with answering(http("204 No Content")) as (url, requests):
        client = connect(url)
        client.close()
        with pytest.raises(Unavailable):
            client.later_work(1, 60)
        client.results(Results("start", 1, ()))
        until(lambda: len(requests) == 1)


def test_a_kept_tls_connection_that_the_server_has_hung_up_is_made_anew() -> None:
    """The server was said to be away, and left alone for a while."""
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost").configure_cert(context)
    calls: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        """One call each, then the end of the connection without a word, as gunicorn's threads do."""
        for _ in range(2):
            with context.wrap_socket(listener.accept()[0], server_side=True) as connection:
                with connection.makefile("rb") as stream:
                    headers = b"".join(iter(stream.readline, b"\r\n"))
                    calls.append(stream.read(int(headers.lower().partition(b"content-length:")[2].split()[0])))
                connection.sendall(http("204 No Content"))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=[listener], daemon=True)
        thread.start()
        trusted = ssl.create_default_context(cadata=ca.cert_pem.bytes().decode())
        client = Client(f"https://localhost:{listener.getsockname()[1]}", "node1", "a-token", trusted)
        client.results(Results("start", 1, ()))
        select.select([client._connection.sock], [], [], 20)
        client.results(Results("start", 2, ()))
        client.disconnect()
        thread.join(20)
    assert [msgspec.json.decode(one)["generation"] for one in calls] == [1, 2]
