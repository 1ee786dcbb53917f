"""What a call costs in SQL statements does not depend on the size of the cloud."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stories.hosts import report, t4, whole
from tests.stories.teller import MOST_STATEMENTS
from tests.stories.world import World, fresh_database

INSTANCE = "a89758ac-e4cb-4c2a-8394-992f539b8d3e"

#: What a lease needs beyond a call on one instance, which it does all in one transaction. Lending chooses by itself (the request, who has
#: enough, what they have), locks the host, asks for a turn at the project's quotas, writes lease, requests and claims, what the host has
#: left, and the record. Giving back reads the lease, locks the host, ends lease, claims and requests, writes what the host has left, and
#: the record.
OF_LEASES = {"lease": 10, "release": 7}


def cloud(directory: Path, hosts: int, arqs: int) -> World:
    """A cloud of so many hosts of two cards, with so many accelerator requests that others have made."""
    directory.mkdir()
    world = World(fresh_database(directory))
    for number in range(hosts):
        name = f"h{number + 1}"
        answer = world.call("PUT", f"/v1/hosts/{name}/inventory", body=report(t4(name), whole(name)), agent=True)
        assert answer.status_code == 200
    for name, group in (("one", {"resources:VGPU": "1"}), ("many", {"resources:VGPU": "50"})):
        assert world.call("POST", "/v2/device_profiles", body=[{"name": name, "groups": [group]}]).status_code == 201
    for _ in range(arqs // 50):
        made = world.call("POST", "/v2/accelerator_requests", person="nova", body={"device_profile_name": "many"})
        assert made.status_code == 201
    return world


def costs(world: World) -> dict[str, int]:
    """Statements of each call of an instance's life, and of the lists."""
    found: dict[str, int] = {}

    def call(
        what: str, method: str, url: str, *, status: int, body: object = None, agent: bool = False
    ) -> dict[str, object]:
        with world.db.statements() as statements:
            answer = world.call(method, url, person="nova-for-admin", body=body, agent=agent)
        assert answer.status_code == status, answer.text
        found[what] = len(statements)
        content: dict[str, object] = answer.json if answer.content else {}
        return content

    arqs = "/v2/accelerator_requests"
    provider = world.call("GET", "/v2/deployables?limit=1&sort_key=created_at").json["deployables"][0]["rp_uuid"]
    made = world.call("POST", arqs, person="nova", body={"device_profile_name": "one"}).json["arqs"][0]["uuid"]
    bind = [
        {"path": "/hostname", "op": "add", "value": "h1"},
        {"path": "/device_rp_uuid", "op": "add", "value": provider},
        {"path": "/instance_uuid", "op": "add", "value": INSTANCE},
    ]
    call("profile", "GET", "/v2/device_profiles?name=one", status=200)
    call("create", "POST", arqs, body={"device_profile_name": "one"}, status=201)
    call("create 50", "POST", arqs, body={"device_profile_name": "many"}, status=201)
    call("bind", "PATCH", arqs, body={made: bind}, status=202)
    work = call("work", "GET", "/v1/hosts/h1/work", agent=True, status=200)
    results = [{"uuid": unit["uuid"], "outcome": "ready"} for unit in work["wanted"]]  # type: ignore[attr-defined]
    body = {"agent_start": "s1", "generation": work["generation"], "results": results}
    call("results", "POST", "/v1/hosts/h1/results", body=body, agent=True, status=204)
    call("of instance", "GET", f"{arqs}?instance={INSTANCE}&bind_state=resolved", status=200)
    call("show", "GET", f"{arqs}/{made}", status=200)
    call("list requests", "GET", arqs, status=200)
    call("list devices", "GET", "/v2/devices", status=200)
    call("list deployables", "GET", "/v2/deployables", status=200)
    call("list attributes", "GET", "/v2/attributes", status=200)
    call("list capacity", "GET", "/v1/capacity", status=200)
    call("list hosts", "GET", "/v1/hosts", status=200)
    call("unbind", "PATCH", arqs, body={made: [{"path": "/hostname", "op": "remove"}]}, status=202)
    call("delete by uuid", "DELETE", f"{arqs}?arqs={made}", status=204)
    call("delete by instance", "DELETE", f"{arqs}?instance={INSTANCE}", status=204)
    lease = call("lease", "POST", "/v1/leases", body={"profile": "one"}, status=201)
    call("show lease", "GET", f"/v1/leases/{lease['uuid']}", status=200)
    call("list leases", "GET", "/v1/leases", status=200)
    call("release", "POST", f"/v1/leases/{lease['uuid']}/release", status=202)
    return found


@pytest.fixture
def clouds(tmp_path: Path) -> Iterator[tuple[World, World]]:
    """A small one and a large one."""
    small, large = cloud(tmp_path / "small", 1, 0), cloud(tmp_path / "large", 40, 1000)
    yield small, large
    small.db.close()
    large.db.close()


def test_no_call_costs_more_statements_in_a_large_cloud(clouds: tuple[World, World]) -> None:
    small, large = clouds
    found = costs(small)
    assert costs(large) == found
    assert {what: number for what, number in found.items() if number > MOST_STATEMENTS} == OF_LEASES
