"""The nginx of the deployment guide, in front of a Cantle: TLS, links, limits, slow clients."""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.real.places import CHECKOUT
from tests.real.processes import Service, answers, free_port, running

NAME = "accelerator.cloud.example"
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin") or "nginx"


@dataclass(frozen=True)
class Proxy:
    """A running nginx. ``second`` is another address of this machine, which the sample's list of controllers names here."""

    port: int
    trust: ssl.SSLContext
    directory: Path
    second: str = "127.0.0.2"

    def ask(
        self,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        source: str = "127.0.0.1",
    ) -> tuple[int, str]:
        """Status and body of one request from an address of this machine."""
        connection = self.connect(source)
        with connection:
            lines = {"Host": f"{NAME}:{self.port}", "Connection": "close", **(headers or {})}
            if body is not None:
                lines |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            connection.sendall(
                f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\n{head}\r\n".encode() + (body or b"")
            )
            answer = b""
            while part := connection.recv(65536):
                answer += part
        head_of_answer, _, content = answer.partition(b"\r\n\r\n")
        return int(head_of_answer.split()[1]), content.decode()

    def connect(self, source: str = "127.0.0.1") -> ssl.SSLSocket:
        """A TLS connection to it."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=30, source_address=(source, 0))
        return self.trust.wrap_socket(plain, server_hostname=NAME)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """The sample as it is, with other ports, other files and a short list of controllers, before ``cantle serve``."""
    place = tmp_path_factory.mktemp("nginx")
    api, agents, public, for_agents = (free_port() for _ in range(4))
    certificate(place)
    sample = (CHECKOUT / "docs" / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    for old, new in {
        "127.0.0.1:6666": f"127.0.0.1:{api}",
        "127.0.0.1:6667": f"127.0.0.1:{agents}",
        "listen 443 ssl": f"listen 127.0.0.1:{public} ssl",
        "listen 6668 ssl": f"listen 127.0.0.1:{for_agents} ssl",
        "/etc/ssl/cantle": str(place),
        "    # 192.0.2.11 1;": "    127.0.0.2 1;",
        "client_header_timeout 10s": "client_header_timeout 1s",
    }.items():
        assert old in sample
        sample = sample.replace(old, new)
    (place / "cantle.conf").write_text(sample)
    temporary = "".join(
        f"{kind}_temp_path {place}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (place / "nginx.conf").write_text(
        f"daemon off; pid {place}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {temporary} include {place}/cantle.conf; }}\n"
    )
    (place / "service.conf").write_text("[api]\ntrust_forwarded_headers = true\nallow_remote = true\n")
    serve = [sys.executable, "-m", "cantle.cli.main", "serve", "--simulate", "t4", "--simulated-only"]
    serve += ["--listen", f"127.0.0.1:{api}", "--state-dir", str(place / "state")]
    cantle = Service("cantle", [*serve, "--config-file", str(place / "service.conf")], place)
    nginx = Service("nginx", [NGINX, "-p", str(place), "-c", str(place / "nginx.conf")], place)
    with ExitStack() as stack:
        stack.enter_context(running(cantle, lambda: answers(f"http://127.0.0.1:{api}/readyz")))
        stack.enter_context(running(nginx, lambda: listens(public)))
        yield Proxy(public, ssl.create_default_context(cafile=place / "api.pem"), place)


def listens(port: int) -> bool:
    """Whether something does."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def certificate(place: Path) -> None:
    """A key and a certificate for the sample's name, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (place / "api.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (place / "api.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))


def test_nginx_finds_nothing_wrong_with_the_sample(proxy: Proxy) -> None:
    command = [NGINX, "-t", "-p", str(proxy.directory), "-c", str(proxy.directory / "nginx.conf")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr


def test_links_lead_back_through_tls_to_where_the_client_came_in(proxy: Proxy) -> None:
    status, content = proxy.ask("/v1/devices?limit=1")
    assert status == 200
    found = re.search(r'"href":"([^"]+)"', content)
    assert found is None or found[1].startswith(f"https://{NAME}:{proxy.port}/v1/")
    assert f'"https://{NAME}:{proxy.port}/v1/"' in proxy.ask("/v1")[1]


def test_a_client_cannot_say_that_he_came_in_elsewhere(proxy: Proxy) -> None:
    forged = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http", "X-Forwarded-Prefix": "/evil"}
    assert "evil" not in proxy.ask("/v1", headers=forged)[1]


def test_a_body_that_is_too_large_is_refused_at_the_door(proxy: Proxy) -> None:
    assert proxy.ask("/v1/leases", body=b" " * ((1 << 20) + 1))[0] == 413


def test_whoever_asks_too_fast_is_told_so_and_the_compute_service_is_not(proxy: Proxy) -> None:
    """A burst of 200 is let through, 50 a second after that."""

    def crowd(source: str, headers: Mapping[str, str]) -> set[int]:
        return {proxy.ask("/healthz", source=source, headers=headers)[0] for _ in range(400)}

    assert crowd(proxy.second, {"X-Service-Token": "of-nova"}) == {200}
    assert 429 in crowd(proxy.second, {}), "the address alone does not count"
    assert 429 in crowd("127.0.0.1", {"X-Service-Token": "anybody's"}), "nor does the header alone"


def test_slow_clients_hold_up_nobody(proxy: Proxy) -> None:
    """More of them than the service has threads, each with half a request."""
    slow = [proxy.connect("127.0.0.3") for _ in range(30)]
    try:
        for connection in slow:
            connection.sendall(b"POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Le")
        assert proxy.ask("/v1", source="127.0.0.4")[0] == 200
        assert slow[0].recv(1) == b"", "it is hung up on when its time is over"
    finally:
        for connection in slow:
            connection.close()


def test_plain_http_is_not_answered_with_anything_of_ours(proxy: Proxy) -> None:
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(f"http://127.0.0.1:{proxy.port}/v1", timeout=30)
    with refusal.value as answer:
        assert answer.code == 400
