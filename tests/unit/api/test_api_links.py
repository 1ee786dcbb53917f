"""Links lead back to where the application is mounted: WSGI's ``SCRIPT_NAME``, as gunicorn, uwsgi and mod_wsgi set it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stories.hosts import HOSTS
from tests.stories.world import World, fresh_database

ROOT = "http://127.0.0.1:6666/accelerator"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A cloud with one thing in every collection."""
    db = fresh_database(tmp_path)
    made = World(db)
    for host, report in HOSTS["two-cards"].items():
        made.call("PUT", f"/v1/hosts/{host}/inventory", body=report, agent=True)
    made.call("POST", "/v2/device_profiles", body=[{"name": "one", "groups": [{"resources:VGPU": "1"}]}])
    made.call("POST", "/v2/accelerator_requests", person="nova", body={"device_profile_name": "one"})
    yield made
    db.close()


def mounted(world: World, path: str) -> Any:
    """What the application answers when it is mounted at ``/accelerator``."""
    answer = world.call("GET", path, extras={"SCRIPT_NAME": "/accelerator"})
    assert answer.status_code == 200, answer.text
    return answer.json


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("device_profiles", "device_profiles"),
        ("devices", "devices"),
        ("deployables", "deployables"),
        ("attributes", "attributes"),
        ("accelerator_requests", "arqs"),
    ],
)
def test_links_of_resources_and_pages_follow_the_mount_point(world: World, path: str, name: str) -> None:
    listed = mounted(world, f"/v2/{path}?limit=1")
    (one,) = listed[name]
    assert one["links"][0] == {"href": f"{ROOT}/v2/{path}/{one['uuid']}", "rel": "self"}
    assert listed[f"{name}_links"][0]["href"].startswith(f"{ROOT}/v2/{path}?limit=1&marker={one['uuid']}")


def test_so_do_the_documents_of_versions(world: World) -> None:
    assert mounted(world, "/")["versions"][0]["links"][0]["href"].rstrip("/") == f"{ROOT}/v2"
    assert mounted(world, "/v2")["links"] == [{"href": f"{ROOT}/v2/", "rel": "self"}]
