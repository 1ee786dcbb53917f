"""Cantle's own tokens over the API: who may do what with one, and that nothing of a secret ever gets out."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import falcon.testing
import pytest
from sqlalchemy import update
from tests.stories.hosts import report, t4
from tests.stories.world import fresh_database

from cantle.api.app import agents_app, public_app
from cantle.api.settings import Auth, Settings
from cantle.engine.token import create_token, first_admin
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.token import Role
from cantle.store.database import Database
from cantle.store.token_table import tokens
from cantle.store.types import database_now

#: What differs from request to request.
ITS_OWN = ("x-openstack-request-id", "date")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """An empty database."""
    database = fresh_database(tmp_path)
    yield database
    database.close()


@pytest.fixture
def public(db: Database) -> Any:
    """The clients' application, with tokens."""
    return public_app(db, Settings(auth=Auth.TOKEN))


@pytest.fixture
def agents(db: Database) -> Any:
    """The agents' application of a server that asks for tokens."""
    return agents_app(db, Settings(open_to_agents=False))


@pytest.fixture
def admin(db: Database) -> str:
    """An administrator's token."""
    kept: list[str] = []
    first_admin(db, kept.append)
    return kept[0]


def ask(app: Any, method: str, path: str, token: str | None, **about: Any) -> falcon.testing.Result:
    """One request, from far away."""
    headers = {"Host": "cantle.example", **about.pop("headers", {})}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return falcon.testing.simulate_request(app, method, path, headers=headers, remote_addr="192.0.2.7", **about)


def everything(answer: falcon.testing.Result) -> tuple[object, ...]:
    """All that a caller can see of an answer but what names the request."""
    headers = {name: value for name, value in answer.headers.items() if name not in ITS_OWN}
    named = answer.headers["x-openstack-request-id"]
    return answer.status, headers, answer.text.replace(named, "")


def code(answer: falcon.testing.Result) -> str | None:
    """The stable code of a failure."""
    return answer.headers.get("x-cantle-error-code")


def test_a_token_opens_both_apis_in_either_header(public: Any, admin: str) -> None:
    assert ask(public, "GET", "/v1/leases", admin).status_code == 200
    assert ask(public, "GET", "/v2/devices", None, headers={"X-Auth-Token": admin}).status_code == 200
    missing = ask(public, "GET", "/v1/leases", None)
    assert (missing.status_code, code(missing), missing.headers["www-authenticate"]) == (401, "token-missing", "Bearer")
    for path in ("/", "/v1", "/v2", "/healthz"):
        assert ask(public, "GET", path, None).status_code == 200


def test_headers_that_name_users_or_roles_are_not_looked_at(public: Any) -> None:
    forged = {"X-Roles": "admin", "X-User-Id": "root", "X-Project-Id": "p", "X-Identity-Status": "Confirmed"}
    assert ask(public, "GET", "/v1/leases", None, headers=forged).status_code == 401


def test_a_token_is_made_shown_once_listed_and_taken_back(public: Any, admin: str) -> None:
    made = ask(public, "POST", "/v1/tokens", admin, json={"name": "ci", "role": "member", "project_id": "lab"})
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    secret, uuid = made.json.pop("token"), made.json["uuid"]
    shown = ask(public, "GET", f"/v1/tokens/{uuid}", admin)
    assert (shown.json["name"], shown.json["role"], shown.json["created_by"]) == ("ci", "member", "admin")
    listed = ask(public, "GET", "/v1/tokens", admin)
    assert [one["name"] for one in listed.json["tokens"]] == ["admin", "ci"]
    assert secret not in shown.text + listed.text
    assert ask(public, "GET", "/v1/leases", secret).json == {"leases": []}
    assert code(ask(public, "GET", "/v1/tokens", secret)) == "policy-denied"
    assert ask(public, "DELETE", f"/v1/tokens/{uuid}", admin).status_code == 204
    assert code(ask(public, "GET", "/v1/leases", secret)) == "token-not-valid"
    ended = ask(public, "GET", "/v1/tokens?include_ended=true", admin).json["tokens"]
    assert [(one["name"], one["state"]) for one in ended] == [("admin", "valid"), ("ci", "revoked")]


def test_a_member_sees_its_own_project_alone(db: Database, public: Any) -> None:
    """Policy and engine see the same kind of caller as with Keystone."""
    _, reader = create_token(db, LOCAL_ADMIN, name="bob", role=Role.READER, project_id="lab")
    assert ask(public, "GET", "/v1/leases", reader).status_code == 200
    assert code(ask(public, "POST", "/v1/leases", reader, json={"profile": "x"})) == "policy-denied"
    assert code(ask(public, "GET", "/v2/devices", reader)) == "policy-denied"


def test_the_agent_of_a_host_speaks_for_it_and_for_no_other(db: Database, agents: Any) -> None:
    _, one = create_token(db, LOCAL_ADMIN, name="h1", role=Role.AGENT, hostname="h1")
    assert ask(agents, "PUT", "/v1/hosts/h1/inventory", one, json=report(t4())).status_code == 200
    assert ask(agents, "GET", "/v1/hosts/h1/work", one).status_code == 200
    for method, path in (("PUT", "inventory"), ("GET", "work"), ("POST", "results")):
        assert code(ask(agents, method, f"/v1/hosts/h2/{path}", one)) == "token-not-valid"


def test_what_holds_a_secret_is_kept_by_no_proxy(db: Database, public: Any, agents: Any, admin: str) -> None:
    """The code of an invitation, and the token that an agent gets for it."""
    invited = ask(public, "POST", "/v1/hosts/gpu2/invite", admin, json={})
    joined = ask(agents, "POST", "/v1/join", invited.json["code"], json={})
    assert joined.json["token"] not in (None, invited.json["code"])
    assert [answer.headers["cache-control"] for answer in (invited, joined)] == ["no-store", "no-store"]


def test_an_agents_token_opens_nothing_of_the_clients_api(db: Database, public: Any) -> None:
    for role in (Role.AGENT, Role.JOIN):
        _, one = create_token(db, LOCAL_ADMIN, name="h1", role=role, hostname="h1")
        for path in ("/v1/leases", "/v1/hosts", "/v1/tokens", "/v2/devices", "/v2/accelerator_requests"):
            assert ask(public, "GET", path, one).status_code == 403


def test_a_clients_token_is_no_agents(db: Database, agents: Any, admin: str) -> None:
    assert code(ask(agents, "GET", "/v1/hosts/h1/work", admin)) == "policy-denied"


def test_old_revoked_altered_and_foreign_tokens_are_refused_with_the_very_same_answer(
    db: Database, agents: Any, admin: str, public: Any
) -> None:
    def agent(hostname: str) -> tuple[str, str]:
        made, text = create_token(db, LOCAL_ADMIN, name=hostname, role=Role.AGENT, hostname=hostname)
        return made.uuid, text

    _, good = agent("h1")
    _, foreign = agent("h2")
    old_uuid, old = agent("h1")
    with db.write() as connection:
        connection.execute(update(tokens).where(tokens.c.uuid == old_uuid).values(expires_at=database_now(-1)))
    revoked_uuid, revoked = agent("h1")
    ask(public, "DELETE", f"/v1/tokens/{revoked_uuid}", admin)
    altered = good[:-1] + ("A" if good[-1] != "A" else "B")
    path = "/v1/hosts/h1/inventory"
    answers = [
        everything(ask(agents, "PUT", path, one, json=report(t4())))
        for one in (foreign, old, revoked, altered, "cantle_x", "x", good + "x")
    ]
    assert answers[0][0] == "401 Unauthorized"
    assert len({str(answer) for answer in answers}) == 1
    assert ask(agents, "PUT", path, good, json=report(t4())).status_code == 200


def test_the_server_logs_no_secret(
    db: Database, public: Any, agents: Any, admin: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the outcome of a call with a token, at the most talkative level, on every logger there is."""
    for name in ("", *logging.root.manager.loggerDict):
        caplog.set_level(logging.DEBUG, name)
    made = ask(public, "POST", "/v1/tokens", admin, json={"name": "ci", "role": "admin"}).json
    _, agent = create_token(db, LOCAL_ADMIN, name="h1", role=Role.AGENT, hostname="h1")
    altered = agent[:-1] + ("A" if agent[-1] != "A" else "B")
    known = [admin, made["token"], agent, altered]
    paths = ["/v1/leases", "/v1/tokens", "/v1/hosts/h1/work", "/v1/hosts/h2/work", "/nowhere"]
    for app, path, token in itertools.product((public, agents), paths, known):
        ask(app, "GET", path, token)
        ask(app, "POST", path, token, body="{not json", headers={"Content-Type": "application/json"})
    ask(public, "DELETE", f"/v1/tokens/{made['uuid']}", admin)
    told = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert "token.revoke" in told
    assert made["uuid"] in told
    assert [token for token in known if token[-43:] in told] == []


def test_the_audit_trail_names_the_token_that_did_it(public: Any, admin: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "cantle.audit")
    made = ask(public, "POST", "/v1/tokens", admin, json={"name": "ci", "role": "reader"}).json
    (line,) = [record.getMessage() for record in caplog.records if made["uuid"] in record.getMessage()]
    assert line.startswith(f"token.create {made['uuid']} ci reader by admin in ")
    assert f"(token {admin.split('_')[1][:8]}" in line.replace("-", "")


def test_what_cannot_be_a_token_is_refused_by_its_name(public: Any, admin: str) -> None:
    for body, why in (
        ({"name": "x", "role": "king"}, "body-not-acceptable"),
        ({"name": "x", "role": "agent"}, "bad-token-host"),
        ({"name": "x", "role": "reader", "expires_in": 0}, "body-not-acceptable"),
        ({"name": "x", "role": "reader", "days": 1}, "body-not-acceptable"),
        ({"name": "a b", "role": "reader"}, "bad-token-name"),
    ):
        assert code(ask(public, "POST", "/v1/tokens", admin, json=body)) == why
    assert code(ask(public, "DELETE", "/v1/tokens/x", admin)) == "bad-uuid"
    assert code(ask(public, "GET", "/v1/tokens/00000000-0000-0000-0000-000000000000", admin)) == "token-not-found"
