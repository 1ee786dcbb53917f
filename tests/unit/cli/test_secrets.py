"""A whole server and the commands against it, all at their most talkative: no secret stands in what they print, log or keep."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.unit.cli.serving import Serving, cantle, serving

WEBHOOK_KEY = base64.b64encode(b"a key of a webhook, 24 b").decode()
AGENTS_TOKEN = "0f1e2d3c4b5a69788796a5b4c3d2e1f0-of-all-agents"
PASSWORD = "hunter2-of-the-service"

TALKATIVE = f"""
[DEFAULT]
debug = true
use_json = %s
[agents]
token = {AGENTS_TOKEN}
[webhook]
url = http://127.0.0.1:1/hook?key=also-{PASSWORD}
secret = whsec_{WEBHOOK_KEY}
"""


def ask(server: Serving, path: str, headers: dict[str, str], body: bytes | None = None) -> int:
    """The status of one request."""
    request = urllib.request.Request(f"{server.url}{path}", data=body, headers=headers)  # noqa: S310 - our own address
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            status: int = answer.status
    except urllib.error.HTTPError as refusal:
        with refusal:
            status = refusal.code
    return status


def altered(token: str) -> str:
    """With another last letter."""
    return token[:-1] + ("A" if token[-1] != "A" else "B")


@pytest.mark.parametrize("as_json", ["false", "true"])
def test_no_secret_is_printed_logged_or_kept(tmp_path: Path, as_json: str) -> None:
    extra = tmp_path / "extra.conf"
    extra.write_text(TALKATIVE % as_json, encoding="utf-8")
    with serving(tmp_path, "--auth", "token", "--config-file", str(extra)) as server:
        admin = (server.state / "admin.token").read_text(encoding="utf-8").strip()
        said = []

        def command(token: str, *words: str) -> str:
            done = cantle("-v", *words, CANTLE_URL=server.url, CANTLE_TOKEN=token)
            said.append(done.err + ("" if "create" in words else done.out))  # a new token is told once, to its maker
            return done.out

        made = json.loads(command(admin, "token", "create", "ci", "--role", "member", "-o", "json"))["token"]
        invited = json.loads(command(admin, "host", "invite", "gpu2", "-o", "json"))["code"]
        said.pop()
        for token in (admin, made, altered(made), "not-a-token-" + PASSWORD):
            command(token, "lease", "list")
            command(token, "token", "list")
            command(token, "lease", "create", token[:200])
            for name in ("Authorization", "X-Auth-Token", "X-Service-Token"):
                headers = {
                    name: f"Bearer {token}" if name == "Authorization" else token,
                    "Content-Type": "application/json",
                }
                ask(server, "/v1/leases", headers)
                ask(server, "/v1/leases", headers, body=b"{not json")
                ask(server, f"/v1/leases?token={token}", headers)
        server.process.terminate()
        server.process.wait(60)
    secrets = {
        "the first administrator's token": admin[-43:],
        "a token": made[-43:],
        "an altered token": altered(made)[-43:],
        "an invitation": invited[-43:],
        "the webhook's key": WEBHOOK_KEY,
        "the agents' token": AGENTS_TOKEN,
        "a password": PASSWORD,
    }
    places = {"the log": (tmp_path / "serve.log").read_text(encoding="utf-8"), "the commands": "\n".join(said)}
    kept = [path for path in server.state.rglob("*") if path.is_file() and path.name != "admin.token"]
    places |= {str(path): path.read_bytes().decode("latin-1") for path in kept if "simulated" not in path.parts}
    assert "POST /v1/leases" in places["the log"] or '"method":"POST"' in places["the log"]
    assert any(path.endswith("cantle.db") for path in places)
    # A name that is asked for is told again in the answer to who asked: there, and nowhere else, may what was typed stand.
    places["the commands"] = "\n".join(line for line in places["the commands"].splitlines() if "profile" not in line)
    found = [(name, place) for name, secret in secrets.items() for place, text in places.items() if secret in text]
    assert found == []
