"""Addresses to listen on, and the servers behind them."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import urllib.request
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from cantle import errors
from cantle.api.settings import Auth, Settings
from cantle.cli import slow_client
from cantle.cli.listen import Address, HttpServer


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback", "url"),
    [
        ("127.0.0.1:6666", "127.0.0.1", 6666, True, "http://127.0.0.1:6666"),
        ("127.8.8.8:1", "127.8.8.8", 1, True, "http://127.8.8.8:1"),
        ("localhost:0", "localhost", 0, True, "http://localhost:0"),
        ("[::1]:80", "::1", 80, True, "http://[::1]:80"),
        ("0.0.0.0:65535", "0.0.0.0", 65535, False, "http://0.0.0.0:65535"),
        ("[::]:80", "::", 80, False, "http://[::]:80"),
    ],
)
def test_an_address_is_understood(text: str, host: str, port: int, loopback: bool, url: str) -> None:
    address = Address.parse(text)
    assert (address.host, address.port, address.is_loopback, address.url) == (host, port, loopback, url)


@pytest.mark.parametrize(
    "text", ["", ":", "127.0.0.1", "127.0.0.1:", ":80", "a:65536", "a:-1", "a:1x", "a:²", "http://a:b"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(errors.BadConfig) as caught:
        Address.parse(text)
    assert caught.value.code == "bad-listen-address"


@pytest.mark.parametrize("text", ["[::]:0", "[::1]:6666", "127.0.0.1:80", "gpu1.example:443"])
def test_an_address_is_told_as_it_was_typed(text: str) -> None:
    """``[::]:0`` was told as ``:::0``."""
    assert str(Address.parse(text)) == text


def test_a_port_that_does_not_exist_is_told_as_such() -> None:
    """It was called no address at all."""
    with pytest.raises(errors.BadConfig, match="port 99999; ports go from 0"):
        Address.parse("127.0.0.1:99999")


def test_a_name_without_an_address_is_told_as_such_and_not_as_open_to_all() -> None:
    with pytest.raises(errors.BadConfig, match=r"the name nowhere\.invalid has no address") as caught:
        _ = Address.parse("nowhere.invalid:6666").is_loopback  # RFC 6761: nobody's, ever
    assert caught.value.code == "cannot-listen"


def _echo_length(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    length = str(len(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))).encode()
    start("200 OK", [("Content-Length", str(len(length)))])
    return [length]


@pytest.mark.parametrize(
    "begun",
    [b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123"],
)
def test_a_slow_client_holds_a_thread_for_its_time_and_no_longer(monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    """A dozen of them, a byte now and then, held up all others for half a minute and more."""
    for name in ("HEAD_S", "BODY_S", "LOOK_S"):
        monkeypatch.setattr(slow_client, name, 0.1)
    server = HttpServer(Address("127.0.0.1", 0), threads=1, name="test")
    thread = threading.Thread(target=server.serve, args=(_echo_length,))
    thread.start()
    over = threading.Event()
    try:
        with socket.create_connection(server.address, timeout=20) as slow:
            slow.sendall(begun)

            def drip() -> None:
                with contextlib.suppress(OSError):
                    while not over.wait(0.05):
                        slow.sendall(b"x")

            dripping = threading.Thread(target=drip)
            dripping.start()
            with urllib.request.urlopen(server.address.url, timeout=8) as answer:  # noqa: S310 - our own http address
                assert answer.read() == b"0"  # sooner than one read of the slow one would time out (10 s)
            over.set()
            dripping.join(20)
    finally:
        over.set()
        server.stop()
        thread.join(20)


def _path(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    path = environ["PATH_INFO"].encode()
    start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(path)))])
    return [path]


@pytest.fixture
def answering() -> Iterator[Address]:
    """Where a server answers with the path it was asked for."""
    server = HttpServer(Address("127.0.0.1", 0), threads=1, name="test")
    thread = threading.Thread(target=server.serve, args=(_path,))
    thread.start()
    yield server.address
    server.stop()
    thread.join(20)


def _ask(address: Address, head: bytes) -> http.client.HTTPResponse:
    with socket.create_connection(address, timeout=20) as client:
        client.sendall(head + b"\r\nHost: x\r\n\r\n")
        answer = http.client.HTTPResponse(client)
        answer.begin()
        return answer


@pytest.mark.parametrize("written", [b"//v2/devices", b"///v2/devices?a=//b", b"/v2/devices"])
def test_a_client_whose_address_ends_with_a_slash_is_answered(answering: Address, written: bytes) -> None:
    """``GET //v2/devices`` was a plain 400, though gunicorn and nginx take it."""
    answer = _ask(answering, b"GET " + written + b" HTTP/1.1")
    assert (answer.status, answer.read()) == (200, b"/v2/devices")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET http://elsewhere/v2/devices HTTP/1.1", 400),
        (b"GET /v2/devices#one HTTP/1.1", 400),
        (b"GET /v2/devices HTTP/3.0", 505),
        (b"GET /v2/devices HTTP/1.1\r\nContent-Length: many", 400),
        (b"GET", 400),
        (b"get /v2/devices HTTP/1.1", 400),
    ],
)
def test_what_is_no_request_is_refused_in_the_words_of_the_api(answering: Address, head: bytes, status: int) -> None:
    answer = _ask(answering, head)
    assert (answer.status, answer.headers["X-Cantle-Error-Code"]) == (status, "bad-request")
    assert (answer.headers["Content-Type"], answer.headers["Connection"]) == ("application/json", "close")
    fault = json.loads(json.loads(answer.read())["error_message"])
    assert (fault["faultcode"], fault["debuginfo"]) == ("Client" if status < 500 else "Server", None)
    assert fault["faultstring"].startswith("This HTTP request cannot be read")


def test_a_path_of_ours_is_refused_as_a_problem_and_a_head_only_with_headers(answering: Address) -> None:
    answer = _ask(answering, b"GET /v1/devices#one HTTP/1.1")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert json.loads(answer.read())["code"] == "bad-request"
    head = _ask(answering, b"HEAD /v1/devices#one HTTP/1.1")
    assert (head.status, head.headers["X-Cantle-Error-Code"]) == (400, "bad-request")


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(errors.Conflict) as caught:
            HttpServer(Address("127.0.0.1", port), threads=1, name="test")
    assert caught.value.code == "port-in-use"
    assert f"127.0.0.1:{port} already" in caught.value.message


def test_an_address_that_is_not_this_machines_is_refused() -> None:
    with pytest.raises(errors.BadConfig) as caught:
        HttpServer(Address("192.0.2.1", 0), threads=1, name="test")  # RFC 5737: nobody's
    assert caught.value.code == "cannot-listen"


def test_a_server_answers_on_the_port_the_kernel_chose_until_it_is_stopped() -> None:
    def application(_environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "2")])
        return [b"hi"]

    server = HttpServer(Address("127.0.0.1", 0), threads=2, name="test")
    assert server.address.port > 0
    thread = threading.Thread(target=server.serve, args=(application,))
    thread.start()
    with urllib.request.urlopen(server.address.url, timeout=20) as answer:  # noqa: S310 - our own http address
        assert answer.read() == b"hi"
    server.stop()
    thread.join(20)
    assert not thread.is_alive()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.address.port), 5).close()


def test_many_who_come_at_once_are_connected_before_anybody_is_served() -> None:
    server = HttpServer(Address("127.0.0.1", 0), threads=1, name="test")
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        for _ in range(100):
            stack.enter_context(socket.create_connection(server.address, timeout=20))
            # Nobody accepts yet: one that found no room would hang until the time is over.


def test_more_clients_than_threads_keep_their_connections() -> None:
    def application(_environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        start("204 No Content", [])
        return []

    server = HttpServer(Address("127.0.0.1", 0), threads=2, name="test")
    thread = threading.Thread(target=server.serve, args=(application,))
    thread.start()
    clients = [http.client.HTTPConnection(*server.address, timeout=20) for _ in range(40)]
    try:
        for _ in range(2):
            for client in clients:
                client.request("GET", "/")
                answer = client.getresponse()
                assert (answer.read(), answer.headers["Connection"]) == (b"", None)
    finally:
        for client in clients:
            client.close()
        server.stop()
        thread.join(20)


def test_settings_without_authentication_are_the_default_that_loopback_protects() -> None:
    assert Settings().auth is Auth.NONE
    assert not Settings().allow_remote
