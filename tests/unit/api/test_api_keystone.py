"""Authentication by Keystone: the real middleware, configured from a real file, asking a stand-in for Keystone over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import falcon.testing
import pytest
from tests.stories.hosts import report, t4
from tests.stories.world import fresh_database
from tests.unit.api.keystone_stand_in import PROJECT, KeystoneStandIn
from tests.unit.api.served import http_server

from cantle.api import keystone
from cantle.api.app import agents_app, public_app
from cantle.api.settings import Auth, Settings
from cantle.conf import api as conf_api
from cantle.conf import files
from cantle.errors import BadConfig, Unauthorized
from cantle.store.database import Database

CONFIG = """
[api]
auth = keystone
[keystone_authtoken]
www_authenticate_uri = http://identity.example/v3
auth_type = password
auth_url = {url}/v3
username = cantle
password = secret
user_domain_name = Default
project_name = service
project_domain_name = Default
http_request_max_retries = 0
"""


@pytest.fixture
def identity() -> Iterator[KeystoneStandIn]:
    """A Keystone that can be asked."""
    stand_in = KeystoneStandIn()
    with http_server(stand_in) as url:
        stand_in.url = url
        yield stand_in


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """A cloud of one host."""
    database = fresh_database(tmp_path)
    reported = falcon.testing.simulate_put(
        agents_app(database, Settings(agents_token="t")),
        "/v1/hosts/h1/inventory",
        json=report(t4()),
        headers={"Authorization": "Bearer t"},
    )
    assert reported.status_code == 200
    yield database
    database.close()


def settings(tmp_path: Path, url: str, extra: str = "") -> Settings:
    """Settings from a file that names this Keystone."""
    file = tmp_path / "cantle.conf"
    file.write_text(CONFIG.format(url=url) + extra)
    return conf_api.public_settings(files.read([str(file)]))


@pytest.fixture
def app(db: Database, identity: KeystoneStandIn, tmp_path: Path) -> Any:
    """The application that asks it."""
    return public_app(db, settings(tmp_path, identity.url))


def ask(
    app: Any, token: str | None = None, service: str | None = None, path: str = "/v2/devices", **about: Any
) -> falcon.testing.Result:
    """A request with tokens, from anywhere."""
    headers = dict(about.pop("headers", {}))
    if token is not None:
        headers["X-Auth-Token"] = token
    if service is not None:
        headers["X-Service-Token"] = service
    return falcon.testing.simulate_request(
        app, about.pop("method", "GET"), path, headers=headers, remote_addr="192.0.2.7", **about
    )


def code(answer: falcon.testing.Result) -> str | None:
    """The stable code of a failure."""
    return answer.headers.get("x-cantle-error-code")


@pytest.mark.parametrize("path", ["/", "/v2", "/v2/", "/v1", "/healthz", "/readyz", "/healthcheck"])
def test_documents_and_health_need_no_token_even_without_keystone(
    app: Any, identity: KeystoneStandIn, path: str
) -> None:
    identity.failing = True
    assert ask(app, path=path).status_code == 200
    assert ask(app, "whatever", path=path).status_code == 200
    assert identity.validations == 0


def test_everything_else_needs_one_and_says_where_to_get_it(app: Any) -> None:
    answer = ask(app)
    assert (answer.status_code, code(answer)) == (401, "token-missing")
    assert answer.headers["www-authenticate"] == 'Keystone uri="http://identity.example/v3"'
    assert "x-openstack-request-id" in answer.headers
    assert list(answer.json) == ["error_message"]
    assert ask(app, path="/v1/hosts").json["code"] == "token-missing"
    assert ask(app, path="/v2/nonexistent").status_code == 401


@pytest.mark.parametrize("token", ["forged", "expired"])
def test_a_token_keystone_does_not_know_is_refused(app: Any, token: str) -> None:
    answer = ask(app, token)
    assert (answer.status_code, code(answer)) == (401, "token-not-valid")


def test_a_tokens_roles_decide(app: Any) -> None:
    assert ask(app, "admin").status_code == 200
    assert code(ask(app, "member")) == "policy-denied"
    assert ask(app, "member", path="/v2/accelerator_requests").status_code == 200


@pytest.mark.parametrize("token", ["system", "unscoped"])
def test_a_token_without_a_project_opens_nothing(app: Any, token: str) -> None:
    answer = ask(app, token)
    assert (answer.status_code, code(answer)) == (403, "project-scope-needed")


def test_identity_headers_of_the_client_are_taken_away(app: Any) -> None:
    forged = {
        "X-Identity-Status": "Confirmed",
        "X-Roles": "admin",
        "X-Project-Id": PROJECT,
        "X-User-Id": "mallory",
        "X-Service-Identity-Status": "Confirmed",
        "X-Service-Roles": "service",
    }
    assert code(ask(app, headers=forged)) == "token-missing"
    assert code(ask(app, "member", headers=forged)) == "policy-denied"
    assert code(_bind(app, "member", headers=forged)) == "service-token-needed"


def test_what_the_middleware_has_not_confirmed_is_nobodys(tmp_path: Path, identity: KeystoneStandIn) -> None:
    """Should a request ever come past it, its headers are the client's own word."""
    read = keystone.identity(settings(tmp_path, identity.url))
    forged = {"HTTP_X_ROLES": "admin", "HTTP_X_PROJECT_ID": PROJECT, "HTTP_X_SERVICE_ROLES": "service"}
    for status in ({}, {"HTTP_X_IDENTITY_STATUS": "Invalid"}):
        with pytest.raises(Unauthorized):
            read({**forged, **status})


def _bind(app: Any, token: str, service: str | None = None, **about: Any) -> falcon.testing.Result:
    body = {"11111111-2222-3333-4444-555555555555": [{"path": "/hostname", "op": "remove"}]}
    return ask(app, token, service, path="/v2/accelerator_requests", method="PATCH", json=body, **about)


def test_a_service_token_counts_by_its_role(app: Any) -> None:
    assert code(_bind(app, "member")) == "service-token-needed"
    assert code(_bind(app, "member", "service")) == "arq-not-found"


@pytest.mark.parametrize("service", ["not-a-service", "forged"])
def test_a_service_token_that_does_not_hold_is_refused(app: Any, service: str) -> None:
    answer = _bind(app, "member", service)
    assert (answer.status_code, code(answer)) == (401, "token-not-valid")


def test_a_service_token_counts_by_its_role_even_where_the_middleware_lets_any_pass(
    db: Database, identity: KeystoneStandIn, tmp_path: Path
) -> None:
    app = public_app(db, settings(tmp_path, identity.url, "service_token_roles_required = false\n"))
    assert code(_bind(app, "member", "not-a-service")) == "service-token-needed"
    assert code(_bind(app, "member", "service")) == "arq-not-found"


def test_a_service_may_act_on_an_expired_token_of_its_user(app: Any) -> None:
    """A boot may take longer than the user's token lives."""
    assert ask(app, "expired", "service").status_code == 200
    assert ask(app, "expired").status_code == 401


def test_the_service_sees_profiles_with_the_owners_trait_if_so_configured(
    db: Database, identity: KeystoneStandIn, tmp_path: Path
) -> None:
    chosen = settings(tmp_path, identity.url, "[api]\nrequire_owner_trait = true\n")
    app = public_app(db, chosen)
    profiles = {"path": "/v2/device_profiles"}
    made = ask(app, "admin", method="POST", json=[{"name": "a", "groups": [{"resources:VGPU": "1"}]}], **profiles)
    assert made.status_code == 201
    (seen,) = ask(app, "reader", "service", **profiles).json["device_profiles"]
    assert seen["groups"] == [{"resources:VGPU": "1", "trait:OWNER_CYBORG": "required"}]
    (seen,) = ask(app, "reader", **profiles).json["device_profiles"]
    assert seen["groups"] == [{"resources:VGPU": "1"}]


def test_an_answer_is_remembered_for_a_while(app: Any, identity: KeystoneStandIn) -> None:
    for _ in range(5):
        assert ask(app, "admin").status_code == 200
    assert identity.validations == 1
    identity.failing = True
    assert ask(app, "admin").status_code == 200


def test_keystone_failing_is_503_and_not_a_wrong_token(app: Any, identity: KeystoneStandIn) -> None:
    identity.failing = True
    answer = ask(app, "member")
    assert (answer.status_code, code(answer)) == (503, "keystone-away")
    assert answer.headers["retry-after"] == "10"
    identity.failing = False
    assert ask(app, "member", path="/v2/accelerator_requests").status_code == 200


def test_keystone_away_is_503(db: Database, tmp_path: Path) -> None:
    app = public_app(db, settings(tmp_path, "http://127.0.0.1:9"))
    answer = ask(app, "admin")
    assert (answer.status_code, code(answer)) == (503, "keystone-away")
    assert ask(app, path="/healthz").status_code == 200


def test_settings_follow_the_file(identity: KeystoneStandIn, tmp_path: Path) -> None:
    chosen = settings(tmp_path, identity.url, "service_token_roles = Service,nova\n")
    assert chosen.auth is Auth.KEYSTONE
    assert chosen.service_token_roles == {"service", "nova"}


def test_a_section_that_says_nothing_stops_the_start(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "cantle.conf"
    file.write_text("[api]\nauth = keystone\n")
    with pytest.raises(BadConfig, match="keystone_authtoken") as refusal:
        public_app(db, conf_api.public_settings(files.read([str(file)])))
    assert refusal.value.code == "keystone-not-configured"


def test_the_cache_forgets_by_time_and_by_size() -> None:
    cache = keystone.TokenCache(size=2)
    cache.set("a", b"1", time=300)
    cache.set("b", b"2", time=300)
    cache.set("c", b"3", time=300)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, b"2", b"3")
    cache.set("b", b"2", time=0)
    assert cache.get("b") is None
