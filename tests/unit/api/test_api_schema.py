"""schemathesis against the whole API, from its own description: no server error, and no answer that is not described."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from tests.stories.hosts import HOSTS
from tests.stories.world import PERSON, World, fresh_database

from cantle.api import openapi, routes
from cantle.api.query import NoQuery
from cantle.api.route import Route
from cantle.model.event import Outlets


def _id(route: Route) -> str:
    return f"{route.method} {route.path}"


def _can_be_misused(route: Route) -> bool:
    """Whether its description forbids anything: a path is any text."""
    return route.body is not None or route.query is not NoQuery or route.is_v2


#: Left out: these judge what a description of shapes cannot say (a name that must exist, a token that this door does not ask for).
BEYOND_SHAPES = ("positive_data_acceptance", "ignored_auth", "missing_required_header")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """The application, called by an administrator who also speaks for Nova."""
    db = fresh_database(tmp_path_factory.mktemp("schema"))
    db.outlets = Outlets(nova_waits=300.0, webhook=True)
    world = World(db)
    for host, report in HOSTS["two-cards"].items():
        world.call("PUT", f"/v1/hosts/{host}/inventory", body=report, agent=True)
    world.call("POST", "/v2/device_profiles", body=[{"name": "one", "groups": [{"resources:VGPU": "1"}]}])
    world.call("POST", "/v1/leases", body={"profile": "one", "workload": "vm1"})
    work = world.call("GET", "/v1/hosts/h1/work", agent=True).json
    results = [{"uuid": unit["uuid"], "outcome": "ready"} for unit in work["wanted"]]
    done = {"agent_start": "s1", "generation": work["generation"], "results": results}
    assert world.call("POST", "/v1/hosts/h1/results", body=done, agent=True).status_code == 204
    assert len(world.call("GET", "/v1/events").json["events"]) >= 2, "a lease and its request"

    def call(environ: dict[str, Any], start_response: Any) -> Any:
        environ[PERSON] = "nova-for-admin"
        return world.public(environ, start_response)

    yield call
    db.close()


@pytest.mark.parametrize("route", routes.PUBLIC_ROUTES, ids=_id)
def test_every_answer_is_described_and_none_is_a_server_error(route: Route, app: Callable[..., Any]) -> None:
    _try(route, app, GenerationMode.POSITIVE)


@pytest.mark.parametrize("route", [one for one in routes.PUBLIC_ROUTES if _can_be_misused(one)], ids=_id)
def test_what_the_description_forbids_is_refused(route: Route, app: Callable[..., Any]) -> None:
    _try(route, app, GenerationMode.NEGATIVE)


def _try(route: Route, app: Callable[..., Any], mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_dict(_without_tokens(openapi.document([route])))
    schema.app = app
    excluded: Any = schemathesis.checks.CHECKS.get_by_names(list(BEYOND_SHAPES))

    @settings(
        max_examples=20 if route.path.startswith("/v1/") else 12,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=schema[route.path][route.method].as_strategy(generation_mode=mode))
    def every(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(excluded_checks=excluded)

    every()


def _without_tokens(document: dict[str, Any]) -> dict[str, Any]:
    """The description for callers who need none, as here."""
    document["components"].pop("securitySchemes")
    for operations in document["paths"].values():
        for operation in operations.values():
            operation.pop("security")
    return document


def test_the_description_covers_every_route() -> None:
    document = openapi.document(routes.PUBLIC_ROUTES)
    described = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}
    assert described == {(route.method, route.path) for route in routes.PUBLIC_ROUTES}


@pytest.mark.parametrize("route", routes.PUBLIC_ROUTES, ids=_id)
def test_a_route_says_what_it_does_and_what_it_answers(route: Route) -> None:
    assert route.says.endswith(".")
    assert (route.answer is None) == (route.status in {202, 204} or route.method == "HEAD") or route.path.endswith(
        ("/release", "/move")
    )
