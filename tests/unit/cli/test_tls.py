"""TLS of the embedded server: certificates that change while it runs, clients that speak none, and half-made pairs."""

from __future__ import annotations

import contextlib
import http.client
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from cantle.cli.client import Client
from cantle.cli.listen import Address, HttpServer
from cantle.cli.tls import Tls
from cantle.errors import BadConfig, Unavailable


def pair(ca: trustme.CA, place: Path) -> tuple[Path, Path]:
    """A new certificate for localhost and its key, in the same two files."""
    made = ca.issue_cert("localhost")
    made.cert_chain_pems[0].write_to_path(place / "cert.pem")
    made.private_key_pem.write_to_path(place / "key.pem")
    return place / "cert.pem", place / "key.pem"


def scheme(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """An application that says how it was reached."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["wsgi.url_scheme"].encode()]


@contextlib.contextmanager
def answering(tls: Tls) -> Iterator[HttpServer]:
    """A server with that certificate."""
    server = HttpServer(Address("127.0.0.1", 0), threads=2, name="test", tls=tls)
    thread = threading.Thread(target=server.serve, args=[scheme])
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(10)


def ask(server: HttpServer, ca: trustme.CA, client: trustme.LeafCert | None = None) -> tuple[str, str]:
    """The serial number of the certificate that is shown, and the answer."""
    trust = ssl.create_default_context(cadata=ca.cert_pem.bytes().decode())
    if client is not None:
        client.configure_cert(trust)
    connection = http.client.HTTPSConnection("localhost", server.address.port, timeout=10, context=trust)
    with contextlib.closing(connection):
        connection.connect()
        shown = connection.sock.getpeercert()
        assert shown
        connection.request("GET", "/")
        return str(shown["serialNumber"]), connection.getresponse().read().decode()


def test_the_application_knows_that_it_was_reached_over_tls(tmp_path: Path) -> None:
    ca = trustme.CA()
    with answering(Tls(*pair(ca, tmp_path))) as server:
        assert server.url == f"https://127.0.0.1:{server.address.port}"
        assert ask(server, ca)[1] == "https"


def test_a_renewed_certificate_is_taken_up_without_a_restart_and_half_of_a_pair_is_not(tmp_path: Path) -> None:
    ca = trustme.CA()
    with answering(Tls(*pair(ca, tmp_path))) as server:
        first, _ = ask(server, ca)
        old_key = (tmp_path / "key.pem").read_bytes()
        pair(ca, tmp_path)
        new_key = (tmp_path / "key.pem").read_bytes()
        (tmp_path / "key.pem").write_bytes(old_key)
        assert ask(server, ca)[0] == first
        (tmp_path / "key.pem").write_bytes(new_key)
        assert ask(server, ca)[0] != first


def test_whoever_speaks_no_tls_is_hung_up_on_with_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    with (
        answering(Tls(*pair(trustme.CA(), tmp_path))) as server,
        socket.create_connection(server.address, timeout=10) as plain,
    ):
        plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b"".join(iter(lambda: plain.recv(4096), b""))
    assert b"HTTP/" not in answer
    assert "Traceback" not in capfd.readouterr().err
    assert sum("without proper TLS" in record.getMessage() for record in caplog.records) == 1


def test_a_client_shows_a_certificate_where_one_is_asked_for(tmp_path: Path) -> None:
    ca, of_clients = trustme.CA(), trustme.CA()
    of_clients.cert_pem.write_to_path(tmp_path / "clients.pem")
    with answering(Tls(*pair(ca, tmp_path), tmp_path / "clients.pem")) as server:
        assert ask(server, ca, of_clients.issue_cert("gpu2"))[1] == "https"
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(server, ca)
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(server, ca, trustme.CA().issue_cert("gpu2"))


def test_what_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    cert, key = pair(trustme.CA(), tmp_path)
    for bad in ((tmp_path / "absent", key), (cert, cert), (key, key)):
        with pytest.raises(BadConfig) as caught:
            Tls(*bad)
        assert caught.value.code == "tls-unusable"
    (tmp_path / "empty").touch()
    with pytest.raises(BadConfig):
        Tls(cert, key, tmp_path / "empty")


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_a_certificate_that_is_not_trusted_is_said_instead_of_that_no_server_answers(tmp_path: Path, name: str) -> None:
    """Of an unknown authority, and of another name than the address has."""
    ca = trustme.CA()
    (ca if name == "127.0.0.1" else trustme.CA()).cert_pem.write_to_path(tmp_path / "ca.pem")
    with answering(Tls(*pair(ca, tmp_path))) as server:
        client = Client(f"https://{name}:{server.address.port}", ca_file=str(tmp_path / "ca.pem"))
        with contextlib.closing(client), pytest.raises(Unavailable, match=r"vouches .* --ca-file") as caught:
            client.get("/v1/hosts")
    assert caught.value.code == "server-not-trusted"


def test_a_command_that_speaks_no_tls_to_a_server_with_a_certificate_is_told_of_https(tmp_path: Path) -> None:
    with answering(Tls(*pair(trustme.CA(), tmp_path))) as server:
        client = Client(f"http://127.0.0.1:{server.address.port}")
        with contextlib.closing(client), pytest.raises(Unavailable, match="wants https://") as caught:
            client.get("/v1/hosts")
    assert caught.value.code == "server-unavailable"
