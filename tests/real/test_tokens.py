"""Real tokens, from a Keystone that can also revoke them, let them expire, hang, and be away."""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from keystoneauth1 import session
from keystoneauth1.identity import v3
from tests.real.accelerator import Accelerator
from tests.real.cloud import Cloud
from tests.real.keystone import Keystone
from tests.real.processes import running, wait_until


def profiles(accelerator: Accelerator, token: str | None, service_token: str | None = None) -> requests.Response:
    """A list anybody with a role may have, asked for with these tokens."""
    headers = {"X-Auth-Token": token, "X-Service-Token": service_token}
    sent = {name: value for name, value in headers.items() if value is not None}
    return requests.get(f"{accelerator.url}/v2/device_profiles", headers=sent, timeout=60)


def token_of(cloud: Cloud, person: str) -> str:
    """A token that nobody has seen yet."""
    known = session.Session(auth=cloud.login(person))
    token = known.get_token()
    assert token is not None
    return token


def test_a_fresh_token_is_accepted(cloud: Cloud, accelerator: Accelerator) -> None:
    assert profiles(accelerator, token_of(cloud, "demo")).status_code == 200


@pytest.mark.parametrize("token", [None, "", "rubbish", str(uuid.uuid4())])
def test_no_token_or_a_made_up_one_is_told_where_to_get_one(
    cloud: Cloud, accelerator: Accelerator, keystone: Keystone, token: str | None
) -> None:
    answer = profiles(accelerator, token)
    assert answer.status_code == 401
    assert keystone.url.removesuffix("/v3") in answer.headers["WWW-Authenticate"]


def test_a_made_up_service_token_spoils_a_good_token(cloud: Cloud, accelerator: Accelerator) -> None:
    assert profiles(accelerator, token_of(cloud, "demo"), "rubbish").status_code == 401


def test_the_version_documents_need_no_token(cloud: Cloud, accelerator: Accelerator) -> None:
    for path in ("/", "/v2", "/v2/"):
        assert requests.get(accelerator.url + path, timeout=60).status_code == 200


def test_a_revoked_token_is_refused(cloud: Cloud, accelerator: Accelerator, keystone: Keystone) -> None:
    token = token_of(cloud, "demo")
    gone = requests.delete(
        f"{keystone.url}/auth/tokens", headers={"X-Auth-Token": token, "X-Subject-Token": token}, timeout=60
    )
    assert gone.status_code == 204
    assert profiles(accelerator, token).status_code == 401


@pytest.fixture(scope="module")
def hasty_keystone(cloud: Cloud, directory: Path) -> Iterator[Keystone]:
    """The same Keystone under another port, whose tokens live for two seconds."""
    made = Keystone(directory, name="keystone-hasty", token_seconds=2)
    with running(made.service, made.answers):
        yield made


def expired_token(cloud: Cloud, hasty_keystone: Keystone, person: str) -> str:
    """A token that was good, and is not any more."""
    login = v3.Password(**{**cloud.credentials(person), "auth_url": hasty_keystone.url})  # type: ignore[arg-type]  # words only
    access = login.get_access(session.Session())
    assert access.auth_token is not None
    assert access.expires is not None
    ends = access.expires.timestamp()
    wait_until("the token has expired", lambda: ends < time.time(), seconds=10)
    return access.auth_token


def test_an_expired_token_is_refused(cloud: Cloud, accelerator: Accelerator, hasty_keystone: Keystone) -> None:
    assert profiles(accelerator, expired_token(cloud, hasty_keystone, "demo")).status_code == 401


def test_an_expired_token_still_counts_in_the_hands_of_a_service(
    cloud: Cloud, accelerator: Accelerator, hasty_keystone: Keystone
) -> None:
    """A boot may outlive the user's token: Keystone lets services go on with it for a while (``allow_expired_window``)."""
    token = expired_token(cloud, hasty_keystone, "demo")
    assert profiles(accelerator, token, token_of(cloud, "nova")).status_code == 200


def test_an_expired_service_token_is_refused(cloud: Cloud, accelerator: Accelerator, hasty_keystone: Keystone) -> None:
    service_token = expired_token(cloud, hasty_keystone, "nova")
    assert profiles(accelerator, token_of(cloud, "demo"), service_token).status_code == 401


def test_a_service_token_without_the_service_role_lets_nobody_bind(cloud: Cloud, accelerator: Accelerator) -> None:
    patch = {
        str(uuid.uuid4()): [
            {"path": f"/{field}", "op": "remove"} for field in ("hostname", "device_rp_uuid", "instance_uuid")
        ]
    }
    answer = requests.patch(
        f"{accelerator.url}/v2/accelerator_requests",
        json=patch,
        headers={"X-Auth-Token": token_of(cloud, "demo"), "X-Service-Token": token_of(cloud, "other")},
        timeout=60,
    )
    assert answer.status_code in (401, 403)


@pytest.mark.parametrize("scope", ["unscoped", "domain", "system"])
def test_a_token_without_a_project_is_forbidden(cloud: Cloud, accelerator: Accelerator, scope: str) -> None:
    known = cloud.credentials("admin")
    who = {key: known[key] for key in ("auth_url", "username", "password", "user_domain_id")}
    scoped = {"unscoped": {"unscoped": True}, "domain": {"domain_id": "default"}, "system": {"system_scope": "all"}}[
        scope
    ]
    token = session.Session(auth=v3.Password(**who, **scoped)).get_token()  # type: ignore[arg-type]  # words and one flag
    assert profiles(accelerator, token).status_code == 403


def test_while_keystone_is_away_known_tokens_work_and_new_ones_are_told_to_come_back(
    cloud: Cloud, accelerator: Accelerator, keystone: Keystone
) -> None:
    known, unknown = token_of(cloud, "demo"), token_of(cloud, "demo")
    assert profiles(accelerator, known).status_code == 200
    keystone.stop()
    try:
        assert profiles(accelerator, unknown).status_code == 503
        assert profiles(accelerator, known).status_code == 200
        assert requests.get(accelerator.url, timeout=60).status_code == 200
    finally:
        keystone.start()
    assert profiles(accelerator, unknown).status_code == 200


def test_a_keystone_that_hangs_is_as_good_as_away(cloud: Cloud, accelerator: Accelerator, keystone: Keystone) -> None:
    unknown = token_of(cloud, "demo")
    keystone.service.signal(signal.SIGSTOP)
    try:
        assert profiles(accelerator, unknown).status_code == 503
    finally:
        keystone.service.signal(signal.SIGCONT)
    assert profiles(accelerator, unknown).status_code == 200
