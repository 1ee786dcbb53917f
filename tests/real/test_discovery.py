"""From the catalog to the API: however an operator writes the endpoint, clients find the same service behind it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import openstack.connection
import pytest
import requests
from keystoneauth1 import discover, session
from tests.real.accelerator import Accelerator, FakeDevice
from tests.real.cloud import Cloud, Endpoint
from tests.real.processes import Service, answers, free_port, running


@pytest.fixture(scope="module", autouse=True)
def mounted(directory: Path, cloud: Cloud, accelerator: Accelerator) -> Iterator[None]:
    """The same Cantle once more, behind gunicorn and below ``/accelerator``, as devstack mounts it: the region ``Mounted``."""
    port = free_port()
    argv: list[str | Path] = [
        Path(sys.executable).parent / "gunicorn",
        "--bind",
        f"127.0.0.1:{port}",
        "--threads",
        "4",
        "cantle.wsgi:application",
    ]
    env = {"CANTLE_CONFIG": str(accelerator.conf_for_services()), "SCRIPT_NAME": "/accelerator"}
    service = Service("cantle-gunicorn", argv, directory / "log", env=env)
    url = f"http://127.0.0.1:{port}/accelerator"
    cloud.publish(Endpoint("cantle", "accelerator", f"{url}/v2", region="Mounted"))
    with running(service, lambda: answers(f"{url}/readyz")):
        yield


@pytest.mark.parametrize("region", ["RegionOne", "Unversioned", "Mounted"])
def test_the_catalog_leads_to_the_api(cloud: Cloud, region: str) -> None:
    answer = cloud.api("demo", region=region).get(
        "/v2/device_profiles" if region == "Unversioned" else "/device_profiles"
    )
    assert answer.status_code == 200
    assert answer.json() == {"device_profiles": []}


@pytest.mark.parametrize("region", ["RegionOne", "Unversioned", "Mounted"])
def test_keystoneauth_discovers_version_and_microversions(cloud: Cloud, region: str) -> None:
    data = cloud.endpoint(region)
    assert data.api_version is not None
    assert data.api_version[0] == 2
    assert (data.min_microversion, data.max_microversion) == ((2, 0), (2, 3))
    assert data.url is not None
    assert data.url.rstrip("/") == {"Unversioned": f"{data.catalog_url}/v2"}.get(region, data.catalog_url)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # openstacksdk's own
@pytest.mark.parametrize("region", ["RegionOne", "Unversioned", "Mounted"])
def test_openstacksdk_finds_it_too(cloud: Cloud, region: str, fake: FakeDevice) -> None:
    with openstack.connection.Connection(session=cloud.session("admin"), region_name=region) as connection:
        assert [device.uuid for device in connection.accelerator.devices()] == [fake.device_uuid]


@pytest.mark.parametrize("region", ["RegionOne", "Mounted"])
def test_links_lead_back_to_where_the_client_came_from(cloud: Cloud, fake: FakeDevice, region: str) -> None:
    api = cloud.api("admin", region=region)
    (device,) = api.get("/devices").json()["devices"]
    endpoint = api.get_endpoint()
    assert device["links"] == [{"href": f"{endpoint}/devices/{fake.device_uuid}", "rel": "self"}]
    shown = requests.get(device["links"][0]["href"], headers={"X-Auth-Token": cloud.token("admin")}, timeout=60)
    assert shown.json() == device


def test_all_versions_are_listed_without_a_token(accelerator: Accelerator) -> None:
    versions = discover.get_version_data(session.Session(), accelerator.url, authenticated=False)
    assert [version["id"] for version in versions] == ["v2"]
