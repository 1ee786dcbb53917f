"""Without authentication only this machine is answered, and no web page that its user happens to look at."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import falcon.testing
import pytest
from tests.stories.hosts import report, t4
from tests.stories.world import fresh_database

from cantle.api.app import agents_app, public_app
from cantle.api.settings import Settings
from cantle.store.database import Database


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """An empty database."""
    database = fresh_database(tmp_path_factory.mktemp("admission"))
    yield database
    database.close()


def ask(app: Any, **about: Any) -> falcon.testing.Result:
    """``GET /v2/devices`` from 127.0.0.1 to 127.0.0.1:6666 but for what is said."""
    headers = {"Host": "127.0.0.1:6666", **about.pop("headers", {})}
    about.setdefault("remote_addr", "127.0.0.1")
    return falcon.testing.simulate_request(
        app, about.pop("method", "GET"), about.pop("path", "/v2/devices"), headers=headers, **about
    )


def code(answer: falcon.testing.Result) -> str | None:
    """The stable code of a failure."""
    return answer.headers.get("x-cantle-error-code")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_this_machine_is_answered(db: Database, address: str) -> None:
    assert ask(public_app(db, Settings()), remote_addr=address).status_code == 200


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::1", "::ffff:192.0.2.7", "", "localhost"])
def test_others_are_not_nor_is_a_socket_that_does_not_say(db: Database, address: str) -> None:
    answer = ask(public_app(db, Settings()), remote_addr=address)
    assert (answer.status_code, code(answer)) == (403, "not-from-here")
    assert "x-openstack-request-id" in answer.headers


def test_others_are_if_the_operator_says_so(db: Database) -> None:
    app = public_app(db, Settings(allow_remote=True))
    assert ask(app, remote_addr="192.0.2.7", headers={"Host": "cantle.example"}).status_code == 200


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:6666", "localhost:6666", "LOCALHOST", "localhost.", "[::1]:6666"]
)
def test_a_name_of_loopback_is_answered(db: Database, host: str) -> None:
    assert ask(public_app(db, Settings()), headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:6666", "[::2]", "[", "192.0.2.7"]
)
def test_a_name_that_was_pointed_at_loopback_is_not(db: Database, host: str) -> None:
    """DNS rebinding: the browser connects to 127.0.0.1, but says the page's own name."""
    answer = ask(public_app(db, Settings()), headers={"Host": host})
    assert (answer.status_code, code(answer)) == (403, "host-not-allowed")


def test_a_name_the_operator_lists_is(db: Database) -> None:
    app = public_app(db, Settings(allowed_hosts=("tunnel.example",)))
    assert ask(app, headers={"Host": "tunnel.example:7000"}).status_code == 200
    assert code(ask(app, headers={"Host": "other.example"})) == "host-not-allowed"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:8080"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("settings", [Settings(), Settings(allow_remote=True)], ids=["local", "remote"])
def test_a_page_of_another_site_is_not_answered(db: Database, headers: dict[str, str], settings: Settings) -> None:
    answer = ask(public_app(db, settings), headers=headers)
    assert (answer.status_code, code(answer)) == (403, "other-origin")


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://127.0.0.1:6666"}, {"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "same-origin"}]
)
def test_a_page_of_our_own_is(db: Database, headers: dict[str, str]) -> None:
    assert ask(public_app(db, Settings()), headers=headers).status_code == 200


def test_headers_that_name_users_and_roles_change_nothing(db: Database) -> None:
    """Whoever sends them is the local administrator like everybody else here, no more and no less."""
    headers = {"X-Roles": "nobody", "X-Project-Id": "p", "X-Identity-Status": "Invalid", "X-User-Id": "mallory"}
    app = public_app(db, Settings())
    made = ask(
        app,
        method="POST",
        path="/v2/device_profiles",
        headers=headers,
        json=[{"name": "gold", "groups": [{"resources:VGPU": "1"}]}],
    )
    assert made.status_code == 201
    arqs = ask(
        app, method="POST", path="/v2/accelerator_requests", headers=headers, json={"device_profile_name": "gold"}
    )
    assert arqs.json["arqs"][0]["project_id"] == "00000000-0000-0000-0000-000000000000"


def test_starting_without_authentication_is_warned_of(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        public_app(db, Settings())
    assert "everybody on this machine is an administrator; other machines are refused" in caplog.text
    with caplog.at_level(logging.WARNING):
        public_app(db, Settings(allow_remote=True))
    assert "and so is everybody who can reach it" in caplog.text


def report_of(app: Any, **about: Any) -> falcon.testing.Result:
    """An agent's report."""
    return ask(app, method="PUT", path="/v1/hosts/h1/inventory", json=report(t4()), **about)


def test_agents_of_this_machine_need_no_token_where_none_is_set(db: Database) -> None:
    app = agents_app(db, Settings())
    assert report_of(app).status_code == 200
    assert code(report_of(app, remote_addr="192.0.2.7")) == "not-from-here"
    assert code(report_of(app, headers={"Origin": "https://evil.example"})) == "other-origin"


def test_with_a_token_agents_are_known_by_it_from_anywhere(db: Database) -> None:
    app = agents_app(db, Settings(agents_token="s3cret"))
    far = {"remote_addr": "192.0.2.7"}
    assert (
        report_of(app, headers={"Authorization": "Bearer s3cret", "Host": "cantle.example"}, **far).status_code == 200
    )
    assert report_of(app, headers={"Authorization": "bearer  s3cret "}, **far).status_code == 200
    for wrong, why in (
        ({}, "agent-token-missing"),
        ({"Authorization": "Basic s3cret"}, "agent-token-missing"),
        ({"Authorization": "Bearer"}, "agent-token-missing"),
        ({"Authorization": "Bearer s3cre"}, "token-not-valid"),
        ({"Authorization": "Bearer s3crét"}, "token-not-valid"),
    ):
        answer = report_of(app, headers=wrong, **far)
        assert (answer.status_code, code(answer)) == (401, why)
        assert answer.headers["www-authenticate"] == "Bearer"
    assert ask(app, path="/healthz", **far).status_code == 200


def test_a_client_cannot_speak_for_a_host(db: Database) -> None:
    """The agents' routes are not in the clients' application at all."""
    answer = report_of(public_app(db, Settings()))
    assert (answer.status_code, code(answer)) == (404, "no-such-path")
