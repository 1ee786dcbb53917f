"""Who may do what: every route, every person. The table here is written by hand from contract section 1.6, not taken from the rules."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stories.world import PEOPLE, World, fresh_database

from cantle.api import routes
from cantle.api.policy import Policy
from cantle.api.route import Route
from cantle.api.rules import ATTACH, BUILDING_BLOCKS, EXPLAIN_NAMES, PUBLIC, RULES
from cantle.errors import BadConfig, Forbidden, Unavailable
from cantle.model.identity import Identity

EVERYBODY = frozenset(PEOPLE)
ADMINS = frozenset({"admin", "admin-only", "nova-for-admin"})
READERS = ADMINS | {"member", "reader", "other", "nova", "nova-for-other"}
MANAGERS = ADMINS | {"manager"}
MEMBERS = frozenset({"admin", "nova-for-admin", "member", "member-only", "other", "nova", "nova-for-other"})
SERVICES = frozenset({"service", "service-without-token"})

#: Who may, by rule. Cyborg's measured matrix with enforce_new_defaults, for the names that are Cyborg's.
MAY = {
    PUBLIC: EVERYBODY,
    "cyborg:device_profile:get_all": READERS,
    "cyborg:device_profile:get_one": READERS,
    "cyborg:device_profile:create": ADMINS,
    "cyborg:device_profile:delete": ADMINS,
    "cyborg:device:get_all": MANAGERS,
    "cyborg:device:get_one": MANAGERS,
    "cyborg:device:disable": ADMINS,
    "cyborg:device:enable": ADMINS,
    "cyborg:deployable:get_all": MANAGERS,
    "cyborg:deployable:get_one": MANAGERS,
    "cyborg:deployable:program": ADMINS,
    "cyborg:attribute:get_all": MANAGERS,
    "cyborg:attribute:get_one": MANAGERS,
    "cyborg:attribute:create": ADMINS,
    "cyborg:attribute:delete": ADMINS,
    "cyborg:arq:get_all": READERS,
    "cyborg:arq:get_one": READERS,
    "cyborg:arq:create": MEMBERS | SERVICES,
    "cyborg:arq:update": MEMBERS | SERVICES,
    "cyborg:arq:delete": MEMBERS | SERVICES,
    "cantle:host:get_all": MANAGERS,
    "cantle:host:get_one": MANAGERS,
    "cantle:event:get_all": ADMINS,
    "cantle:device:get_all": MANAGERS,
    "cantle:device:get_one": MANAGERS,
    "cantle:intent:get": ADMINS,
    "cantle:intent:set": ADMINS,
    "cantle:intent:clear": ADMINS,
    "cantle:capacity:get_all": MANAGERS,
    "cantle:flavor:get_all": READERS,
    "cantle:flavor:get_one": READERS,
    "cantle:flavor:create": ADMINS,
    "cantle:flavor:delete": ADMINS,
    "cantle:explain:get": READERS,
    "cantle:lease:get_all": READERS,
    "cantle:lease:get_one": READERS,
    "cantle:lease:create": MEMBERS | ADMINS,
    "cantle:lease:release": MEMBERS | ADMINS,
    "cantle:lease:move": MEMBERS | ADMINS,
    "cantle:lease:renew": MEMBERS | ADMINS,
    "cantle:lease:force": ADMINS,
    "cantle:audit:get_all": ADMINS,
    "cantle:who:get": READERS,
    "cantle:quota:get_all": READERS,
    "cantle:quota:set": ADMINS,
    "cantle:usage:get": READERS,
    "cantle:host:invite": ADMINS,
    "cantle:host:drain": ADMINS,
    "cantle:host:confirm": ADMINS,
    "cantle:host:rename": ADMINS,
    "cantle:host:forget": ADMINS,
    "cantle:token:get_all": ADMINS,
    "cantle:token:get_one": ADMINS,
    "cantle:token:create": ADMINS,
    "cantle:token:revoke": ADMINS,
}


#: Which rule guards which request, written by hand too: the walk below judges a route by the rule it names.
GUARDS = """
GET    /healthz                                        public_api
HEAD   /healthz                                        public_api
GET    /healthcheck                                    public_api
HEAD   /healthcheck                                    public_api
GET    /readyz                                         public_api
HEAD   /readyz                                         public_api
GET    /                                               public_api
GET    /v1                                             public_api
GET    /v2                                             public_api
GET    /v2/device_profiles                             cyborg:device_profile:get_all
POST   /v2/device_profiles                             cyborg:device_profile:create
DELETE /v2/device_profiles                             cyborg:device_profile:delete
GET    /v2/device_profiles/{ref}                       cyborg:device_profile:get_one
DELETE /v2/device_profiles/{ref}                       cyborg:device_profile:delete
GET    /v2/devices                                     cyborg:device:get_all
GET    /v2/devices/{uuid}                              cyborg:device:get_one
POST   /v2/devices/{uuid}/disable                      cyborg:device:disable
POST   /v2/devices/{uuid}/enable                       cyborg:device:enable
GET    /v2/deployables                                 cyborg:deployable:get_all
GET    /v2/deployables/{uuid}                          cyborg:deployable:get_one
PATCH  /v2/deployables/{uuid}/program                  cyborg:deployable:program
PATCH  /v2/deployables/{uuid}/program/{same}           cyborg:deployable:program
GET    /v2/attributes                                  cyborg:attribute:get_all
POST   /v2/attributes                                  cyborg:attribute:create
GET    /v2/attributes/{uuid}                           cyborg:attribute:get_one
DELETE /v2/attributes/{uuid}                           cyborg:attribute:delete
GET    /v2/accelerator_requests                        cyborg:arq:get_all
POST   /v2/accelerator_requests                        cyborg:arq:create
PATCH  /v2/accelerator_requests                        cyborg:arq:update
DELETE /v2/accelerator_requests                        cyborg:arq:delete
GET    /v2/accelerator_requests/{uuid}                 cyborg:arq:get_one
PATCH  /v2/accelerator_requests/{uuid}                 cyborg:arq:update
DELETE /v2/accelerator_requests/{uuid}                 cyborg:arq:delete
GET    /v1/openapi.json                                public_api
GET    /v1/docs                                        public_api
GET    /v1/hosts                                       cantle:host:get_all
GET    /v1/hosts/{host}                                cantle:host:get_one
GET    /v1/devices                                     cantle:device:get_all
GET    /v1/devices/{uuid}                              cantle:device:get_one
GET    /v1/hosts/{host}/devices/{address}              cantle:device:get_one
GET    /v1/hosts/{host}/devices/{address}/intent       cantle:intent:get
PUT    /v1/hosts/{host}/devices/{address}/intent       cantle:intent:set
DELETE /v1/hosts/{host}/devices/{address}/intent       cantle:intent:clear
GET    /v1/hosts/{host}/devices/{address}/plan         cantle:intent:get
GET    /v1/deployables                                 cyborg:deployable:get_all
GET    /v1/deployables/{uuid}                          cyborg:deployable:get_one
GET    /v1/capacity                                    cantle:capacity:get_all
GET    /v1/capacity/profiles                           cantle:capacity:get_all
GET    /v1/pools                                       cantle:capacity:get_all
GET    /v1/flavors                                     cantle:flavor:get_all
POST   /v1/flavors                                     cantle:flavor:create
GET    /v1/flavors/{ref}                               cantle:flavor:get_one
DELETE /v1/flavors/{ref}                               cantle:flavor:delete
GET    /v1/explain                                     cantle:explain:get
GET    /v1/profiles                                    cyborg:device_profile:get_all
POST   /v1/profiles                                    cyborg:device_profile:create
GET    /v1/profiles/{ref}                              cyborg:device_profile:get_one
DELETE /v1/profiles/{ref}                              cyborg:device_profile:delete
GET    /v1/arqs                                        cyborg:arq:get_all
GET    /v1/arqs/{uuid}                                 cyborg:arq:get_one
GET    /v1/events                                      cantle:event:get_all
GET    /v1/leases                                      cantle:lease:get_all
POST   /v1/leases                                      cantle:lease:create
GET    /v1/leases/{uuid}                               cantle:lease:get_one
GET    /v1/leases/{uuid}/can-move                      cantle:lease:get_one
POST   /v1/leases/{uuid}/move                          cantle:lease:move
POST   /v1/leases/{uuid}/release                       cantle:lease:release
POST   /v1/leases/{uuid}/renew                         cantle:lease:renew
POST   /v1/leases/{uuid}/force-release                 cantle:lease:force
GET    /v1/capacity/states                             cantle:capacity:get_all
GET    /v1/audit                                       cantle:audit:get_all
GET    /v1/who/{text}                                  cantle:who:get
GET    /v1/quotas                                      cantle:quota:get_all
PUT    /v1/quotas/{project}/{resource_class}           cantle:quota:set
GET    /v1/usage                                       cantle:usage:get
DELETE /v1/hosts/{host}                                cantle:host:forget
POST   /v1/hosts/{host}/drain                          cantle:host:drain
POST   /v1/hosts/{host}/undrain                        cantle:host:drain
POST   /v1/hosts/{host}/confirm                        cantle:host:confirm
POST   /v1/hosts/{host}/rename                         cantle:host:rename
POST   /v1/hosts/{host}/invite                         cantle:host:invite
GET    /v1/tokens                                      cantle:token:get_all
POST   /v1/tokens                                      cantle:token:create
GET    /v1/tokens/{uuid}                               cantle:token:get_one
DELETE /v1/tokens/{uuid}                               cantle:token:revoke
PUT    /v1/hosts/{host}/inventory                      cantle:agent:report
GET    /v1/authority                                   public_api
POST   /v1/join                                        cantle:agent:join
GET    /v1/hosts/{host}/work                           cantle:agent:work
POST   /v1/hosts/{host}/results                        cantle:agent:results
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """An empty cloud: what is allowed fails later, for want of a thing or a body, but never with 403 for the policy's sake."""
    db = fresh_database(tmp_path_factory.mktemp("policy"))
    yield World(db)
    db.close()


def _id(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.mark.parametrize("route", routes.PUBLIC_ROUTES, ids=_id)
def test_a_route_lets_in_exactly_those_who_may(route: Route, world: World) -> None:
    path = route.path.replace("{ref}", "x").replace("{uuid}", "x").replace("{same}", "x")
    let_in = set()
    for person in PEOPLE:
        answer = world.call(route.method, path, person=person)
        assert answer.status_code < 500
        if answer.headers.get("x-cantle-error-code") not in ("policy-denied", "project-scope-needed"):
            let_in.add(person)
    assert let_in == MAY[route.rule]


def test_every_request_is_guarded_by_the_rule_made_for_it() -> None:
    guarded = {(route.method, route.path): route.rule for route in (*routes.PUBLIC_ROUTES, *routes.AGENT_ROUTES)}
    assert guarded == {(method, path): rule for method, path, rule in map(str.split, GUARDS.strip().splitlines())}


@pytest.mark.parametrize("route", [*routes.PUBLIC_ROUTES, *routes.AGENT_ROUTES], ids=_id)
def test_a_route_has_a_rule_that_exists_and_is_made_for_requests(route: Route) -> None:
    blocks = {rule.name for rule in BUILDING_BLOCKS} - {PUBLIC}
    assert route.rule in {rule.name for rule in RULES} - blocks


def test_a_rule_that_guards_no_route_is_a_building_block() -> None:
    guarding = {route.rule for route in (*routes.PUBLIC_ROUTES, *routes.AGENT_ROUTES)}
    asked_besides = {ATTACH, EXPLAIN_NAMES}
    assert {rule.name for rule in RULES} - guarding == {rule.name for rule in BUILDING_BLOCKS} - {
        PUBLIC
    } | asked_besides


def test_public_routes_are_documents_and_health_and_nothing_else() -> None:
    public = {route.path for route in (*routes.PUBLIC_ROUTES, *routes.AGENT_ROUTES) if route.rule == PUBLIC}
    assert public == {
        "/",
        "/v1",
        "/v1/openapi.json",
        "/v1/docs",
        "/v1/authority",
        "/v2",
        "/healthz",
        "/readyz",
        "/healthcheck",
    }


@pytest.mark.parametrize("route", [one for one in routes.AGENT_ROUTES if one.rule != PUBLIC], ids=_id)
def test_what_agents_may_nobody_else_may(route: Route) -> None:
    policy = Policy()
    assert [person for person, who in PEOPLE.items() if policy.allows(route.rule, who)] == []
    role = "join" if route.path == "/v1/join" else "agent"
    assert policy.allows(route.rule, Identity("agent", None, frozenset({role})))


def test_a_rule_nobody_wrote_allows_nobody() -> None:
    policy = Policy()
    assert not policy.allows("cyborg:device:explode", PEOPLE["admin"])
    with pytest.raises(Forbidden, match="cyborg:device:explode"):
        policy.check("cyborg:device:explode", PEOPLE["admin"])


def test_a_token_without_a_project_opens_nothing() -> None:
    with pytest.raises(Forbidden) as refusal:
        Policy().check("cyborg:device:get_all", PEOPLE["system-admin"])
    assert refusal.value.code == "project-scope-needed"


def test_the_operators_file_overrides_a_rule(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('"cyborg:device:get_all": "rule:our_people"\n"our_people": "role:auditor or role:admin"\n')
    policy = Policy(str(file))
    assert policy.allows("cyborg:device:get_all", Identity("u", "p", frozenset({"auditor"})))
    assert not policy.allows("cyborg:device:get_all", PEOPLE["manager"])
    assert policy.allows("cyborg:device:get_one", PEOPLE["manager"])


def test_a_changed_file_counts_at_once_and_a_broken_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "policy.yaml"
    policy = Policy(str(file))
    assert policy.allows("cyborg:device:get_all", PEOPLE["manager"])
    file.write_text('"cyborg:device:get_all": "role:admin"\n')
    assert not policy.allows("cyborg:device:get_all", PEOPLE["manager"])
    file.write_text('"cyborg:device:get_all": [broken\n')
    assert not policy.allows("cyborg:device:get_all", PEOPLE["manager"])
    assert [record.message for record in caplog.records if "cannot be used" in record.message]
    file.unlink()
    assert policy.allows("cyborg:device:get_all", PEOPLE["manager"])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("- a list\n", "mapping"),
        ('"cyborg:device:get_all": 7\n', "both text"),
        ('"cyborg:device:get_al": "role:admin"\n', "cyborg:device:get_al"),
        ('"cyborg:device:get_all": "admins only"\n', "cannot be understood"),
        ('"cyborg:device:get_all": "role:admin or nonsense"\n', "cannot be understood"),
        ('"cyborg:device:get_all": "rule:not_there"\n', "unknown rule"),
        ('"a": "rule:b"\n"b": "rule:a"\n', "themselves"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_stops_the_start(tmp_path: Path, content: str | bytes, says: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadConfig, match=says) as refusal:
        Policy(str(file))
    assert refusal.value.code == "bad-policy-file"
    assert str(file) in refusal.value.message


def test_a_rule_that_asks_another_server_is_asked_every_time(tmp_path: Path) -> None:
    """What such a server answers is not ours to remember; one that cannot be reached allows nothing."""
    file = tmp_path / "policy.yaml"
    file.write_text('"cyborg:device:get_all": "http://127.0.0.1:9/check"\n')
    policy = Policy(str(file))
    with pytest.raises(Unavailable, match="cyborg:device:get_all"):
        policy.allows("cyborg:device:get_all", PEOPLE["admin"])
    assert policy.allows("cyborg:device:get_one", PEOPLE["admin"])


def test_the_policy_writes_nothing_into_the_home(tmp_path: Path) -> None:
    """oslo.policy's loader of plug-ins keeps a cache there."""
    code = (
        "from cantle.api.policy import Policy; from cantle.model.identity import LOCAL_ADMIN; "
        "Policy().check('cyborg:device:get_all', LOCAL_ADMIN)"
    )
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
    assert list(tmp_path.iterdir()) == []
