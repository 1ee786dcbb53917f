"""What only a real server and a real connection show: limits before the application, bodies in chunks, connections that go on."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Iterator

import pytest
from tests.stories.world import fresh_database

from cantle.api.app import public_app
from cantle.api.settings import Settings
from cantle.cli.listen import MOST_BODY_BYTES, MOST_HEADER_BYTES, Address, HttpServer


def profile(name: str) -> bytes:
    """A body that makes a profile of this name."""
    return b'[{"name": "%s", "groups": [{"resources:VGPU": "1"}]}]' % name.encode()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Where ``cantle serve``'s own HTTP server answers with the clients' application."""
    db = fresh_database(tmp_path_factory.mktemp("over-http"))
    server = HttpServer(Address("127.0.0.1", 0), threads=2, name="test")
    thread = threading.Thread(target=lambda: server.serve(public_app(db, Settings())))
    thread.start()
    yield server.address.port
    server.stop()
    thread.join(30)
    db.close()


@pytest.fixture
def connection(port: int) -> Iterator[http.client.HTTPConnection]:
    """A connection to it."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    yield client
    client.close()


def status(client: http.client.HTTPConnection, method: str, path: str, **about: object) -> int:
    """The status of one request on this connection."""
    client.request(method, path, **about)  # type: ignore[arg-type]
    answer = client.getresponse()
    answer.read()
    return answer.status


def test_headers_without_end_are_cut_off(connection: http.client.HTTPConnection) -> None:
    assert status(connection, "GET", "/v2/devices", headers={"X-Long": "a" * MOST_HEADER_BYTES}) == 413
    assert status(connection, "GET", "/v2/devices") == 200


def test_a_body_beyond_all_limits_is_refused_before_it_is_sent(connection: http.client.HTTPConnection) -> None:
    connection.putrequest("POST", "/v2/device_profiles")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(MOST_BODY_BYTES + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413


def test_who_sends_too_much_hears_so_and_can_go_on(connection: http.client.HTTPConnection) -> None:
    """The server closes the connection after a 413; a client that is still sending then would see it break instead."""
    headers = {"Content-Type": "application/json"}
    assert status(connection, "POST", "/v2/device_profiles", body=b" " * (2 << 20), headers=headers) == 413
    assert status(connection, "POST", "/v2/device_profiles", body=profile("after"), headers=headers) == 201


def test_a_client_that_sends_twenty_megabytes_gets_its_answer(connection: http.client.HTTPConnection) -> None:
    """It found its connection broken in the middle of sending."""
    headers = {"Content-Type": "application/json"}
    assert status(connection, "POST", "/v1/leases", body=b" " * (20 << 20), headers=headers) == 413


def test_a_body_in_chunks_is_read(connection: http.client.HTTPConnection) -> None:
    headers = {"Content-Type": "application/json"}
    chunks = [profile("chunks")[:10], profile("chunks")[10:]]
    assert (
        status(connection, "POST", "/v2/device_profiles", body=iter(chunks), headers=headers, encode_chunked=True)
        == 201
    )


def test_chunks_without_end_are_refused(connection: http.client.HTTPConnection) -> None:
    headers = {"Content-Type": "application/json"}
    chunks = (b" " * 65536 for _ in range(100))
    assert status(connection, "POST", "/v2/device_profiles", body=chunks, headers=headers, encode_chunked=True) == 413


def _all_answers(port: int, chunks: bytes, kind: str = "application/json") -> list[str]:
    """The status of every answer to one request in chunks, until the server ends the connection."""
    head = f"POST /v2/device_profiles HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
        plain.sendall(head.encode() + chunks)
        answers = b"".join(iter(lambda: plain.recv(65536), b""))
    return re.findall(r"HTTP/1\.1 (\d+)", answers.decode())


def test_chunks_that_are_none_are_the_clients_mistake(port: int) -> None:
    assert _all_answers(port, b"zz\r\nabc\r\n0\r\n\r\n") == ["400"]


def test_chunks_nobody_read_are_not_taken_for_the_next_request(port: int) -> None:
    hidden = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert _all_answers(port, b"%x\r\n%b\r\n0\r\n\r\n" % (len(hidden), hidden), kind="text/plain") == ["415"]


def test_answers_without_a_body_leave_the_connection_in_step(connection: http.client.HTTPConnection) -> None:
    """A 204 has no length, a 202 one of 0; a client on the same connection must not wait for more."""
    headers = {"Content-Type": "application/json"}
    assert status(connection, "POST", "/v2/device_profiles", body=profile("gone"), headers=headers) == 201
    assert status(connection, "DELETE", "/v2/device_profiles/gone") == 204
    assert status(connection, "GET", "/v2/device_profiles") == 200
    assert status(connection, "HEAD", "/v2/devices") == 405
    assert status(connection, "GET", "/v2/device_profiles") == 200
