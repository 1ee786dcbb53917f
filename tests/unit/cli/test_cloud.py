"""The same commands where Keystone says who asks: ``clouds.yaml``, ``OS_*``, the catalog; and which of several ways in counts."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.unit.api.keystone_stand_in import KeystoneStandIn
from tests.unit.api.served import http_server
from tests.unit.cli.answering import Answer, Request, answering

from cantle.cli.exit_codes import ExitCode
from cantle.cli.listen import Address, HttpServer
from cantle.cli.main import run
from cantle.cli.tls import Tls

HOSTS = json.dumps({"hosts": [{"hostname": "gpu1", "up": True, "devices": 1, "last_seen": None}]}).encode()


class Keystone(KeystoneStandIn):
    """With the accelerator service in its catalog, if it has an address; ``refusing`` lets nobody in."""

    def __init__(self) -> None:
        super().__init__()
        self.accelerator: str | None = None
        self.refusing = False
        self.logins = 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        """WSGI."""
        if environ["PATH_INFO"] == "/v3/auth/tokens" and environ["REQUEST_METHOD"] == "POST":
            self.logins += 1
            if self.refusing:
                body = b'{"error": {"code": 401, "title": "Unauthorized", "message": "wrong password hunter2"}}'
                start_response(
                    "401 Unauthorized", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
                )
                return [body]
        return super().__call__(environ, start_response)

    def _token(self, name: str) -> dict[str, Any]:
        content = super()._token(name)
        if self.accelerator:
            place = {"interface": "public", "region": "R", "region_id": "R", "url": self.accelerator, "id": "a"}
            content["token"]["catalog"].append(
                {"type": "accelerator", "name": "cantle", "id": "2", "endpoints": [place]}
            )
        return content


class Cloud:
    """A Keystone and a Cantle, and what the latter was asked."""

    def __init__(self, keystone: Keystone, url: str) -> None:
        self.keystone = keystone
        self.url = url
        self.asked: list[Request] = []


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A cloud named ``lab`` in a ``clouds.yaml``; nothing of it in the environment."""
    for name in [name for name in os.environ if name.startswith(("OS_", "CANTLE_"))]:
        monkeypatch.delenv(name)
    # The SDK looks into the working directory of the moment in which it is imported, which for a command is the right one.
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    monkeypatch.chdir(tmp_path)
    keystone = Keystone()
    asked: list[Request] = []

    def answer(request: Request) -> Answer:
        asked.append(request)
        return Answer(200, HOSTS)

    with http_server(keystone) as address, answering(answer) as url:
        keystone.url, keystone.accelerator = address, f"{url}/v2"
        found = Cloud(keystone, url)
        found.asked = asked
        (tmp_path / "clouds.yaml").write_text(
            "clouds:\n  lab:\n    region_name: R\n    auth:\n"
            f"      auth_url: {address}/v3\n      username: u\n      password: hunter2\n"
            "      project_name: p\n      user_domain_id: default\n      project_domain_id: default\n"
        )
        yield found


@contextmanager
def secured(ca: trustme.CA) -> Iterator[str]:
    """The URL of a Cantle that has a certificate of that authority."""

    def hosts(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(HOSTS)))])
        return [HOSTS]

    made = ca.issue_cert("127.0.0.1")
    made.cert_chain_pems[0].write_to_path("cert.pem")
    made.private_key_pem.write_to_path("key.pem")
    server = HttpServer(Address("127.0.0.1", 0), threads=2, name="test", tls=Tls(Path("cert.pem"), Path("key.pem")))
    thread = threading.Thread(target=server.serve, args=[hosts])
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.address.port}"
    finally:
        server.stop()
        thread.join(10)


def test_a_cloud_of_clouds_yaml_says_where_and_who(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--os-cloud", "lab", "host", "list", "-c", "hostname", "-o", "value"]) == ExitCode.OK
    assert capsys.readouterr().out == "gpu1\n"
    (request,) = cloud.asked
    assert request.path.startswith("/v1/hosts")
    assert request.headers["X-Auth-Token"] == "our-own"
    assert "Authorization" not in request.headers


def test_so_does_the_environment(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("clouds.yaml").unlink()
    settings = {
        "AUTH_URL": f"{cloud.keystone.url}/v3",
        "USERNAME": "u",
        "PASSWORD": "hunter2",
        "PROJECT_NAME": "p",
        "USER_DOMAIN_ID": "default",
        "PROJECT_DOMAIN_ID": "default",
        "REGION_NAME": "R",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"OS_{name}", value)
    assert run(["host", "list"]) == ExitCode.OK
    assert cloud.asked[0].headers["X-Auth-Token"] == "our-own"


@pytest.mark.parametrize(
    ("entry", "options", "exit_code", "warned"),
    [
        ("", [], ExitCode.UNAVAILABLE, False),
        ("    verify: false\n", [], ExitCode.OK, True),
        ("    insecure: true\n", [], ExitCode.OK, True),
        ("    verify: false\n    cacert: ca.pem\n", [], ExitCode.OK, True),
        ("    verify: false\n", ["--ca-file", "other.pem"], ExitCode.UNAVAILABLE, False),
        ("    verify: false\n    cacert: ca.pem\n", ["--ca-file", "ca.pem"], ExitCode.OK, False),
    ],
    ids=[
        "nothing said",
        "verify: false",
        "insecure",
        "verify: false beside an authority",
        "another authority named",
        "the authority named",
    ],
)
def test_a_cloud_whose_entry_says_that_nobody_need_vouch_for_it_is_used_with_a_warning(
    cloud: Cloud,
    capsys: pytest.CaptureFixture[str],
    entry: str,
    options: list[str],
    exit_code: ExitCode,
    warned: bool,
) -> None:
    ca = trustme.CA()
    for name, authority in (("ca.pem", ca), ("other.pem", trustme.CA())):
        authority.cert_pem.write_to_path(name)
    with secured(ca) as url:
        cloud.keystone.accelerator = f"{url}/v2"
        file = Path("clouds.yaml")
        file.write_text(file.read_text() + entry)
        assert run(["--os-cloud", "lab", *options, "host", "list"]) == exit_code
    assert (
        "warning: by 'verify: false' (or 'insecure') of this cloud nobody vouches" in capsys.readouterr().err
    ) == warned


def test_an_address_that_is_named_counts_before_the_catalogs(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_CLOUD", "lab")
    cloud.keystone.accelerator = "http://127.0.0.1:1/v2"
    assert run(["--url", cloud.url, "host", "list"]) == ExitCode.OK
    assert cloud.asked[0].headers["X-Auth-Token"] == "our-own"


def test_a_token_of_ours_counts_before_the_cloud(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_CLOUD", "lab")
    monkeypatch.setenv("CANTLE_TOKEN", "cantle_x_y")
    assert run(["--url", cloud.url, "host", "list"]) == ExitCode.OK
    assert cloud.keystone.logins == 0
    assert cloud.asked[0].headers["Authorization"] == "Bearer cantle_x_y"


@pytest.mark.parametrize(
    ("what", "code", "exit_code"),
    [
        ("refused", "keystone-refused", ExitCode.FORBIDDEN),
        ("broken", "keystone-away", ExitCode.UNAVAILABLE),
        ("away", "keystone-away", ExitCode.UNAVAILABLE),
        ("not in the catalog", "no-accelerator-service", ExitCode.CONFIG),
        ("not in the file", "cloud-not-usable", ExitCode.CONFIG),
    ],
)
def test_what_is_wrong_with_a_cloud_is_said_without_its_password(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], what: str, code: str, exit_code: ExitCode
) -> None:
    name = "lab"
    if what == "refused":
        cloud.keystone.refusing = True
    elif what == "broken":
        cloud.keystone.failing = True
    elif what == "away":
        file = Path("clouds.yaml")
        file.write_text(file.read_text().replace(cloud.keystone.url, "http://127.0.0.1:1"))
    elif what == "not in the catalog":
        cloud.keystone.accelerator = None
    else:
        name = "lav"
    assert run(["--os-cloud", name, "host", "list"]) == exit_code
    said = capsys.readouterr().err
    assert f"[{code}]" in said
    assert name in said
    assert "hunter2" not in said
    assert "Traceback" not in said
