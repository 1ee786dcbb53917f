"""From the catalog to the API: however an operator writes the endpoint, clients find the same service behind it."""

from __future__ import annotations

import pytest
import requests
from keystoneauth1 import discover
from tests.real.accelerator import Accelerator
from tests.real.cloud import Cloud


@pytest.mark.parametrize("region", ["RegionOne", "Unversioned", "Mounted"])
def test_the_catalog_leads_to_the_api(cloud: Cloud, region: str) -> None:
    answer = cloud.api("demo", region=region).get(
        "/v2/device_profiles" if region == "Unversioned" else "/device_profiles"
    )
    assert answer.status_code == 200
    assert answer.json() == {"device_profiles": []}


@pytest.mark.parametrize("region", ["RegionOne", "Unversioned", "Mounted"])
def test_keystoneauth_discovers_version_and_microversions(cloud: Cloud, region: str) -> None:
    data = cloud.session("demo").auth.get_endpoint_data(
        cloud.session("demo"),
        service_type="accelerator",
        interface="public",
        region_name=region,
        min_version="2",
        max_version="2.latest",
    )
    assert data.api_version[0] == 2
    assert (data.min_microversion, data.max_microversion) == ((2, 0), (2, 3))
    assert data.url.rstrip("/").endswith("/v2")
    assert data.url.startswith(data.catalog_url.removesuffix("/v2"))


@pytest.mark.parametrize("region", ["RegionOne", "Mounted"])
def test_links_lead_back_to_where_the_client_came_from(cloud: Cloud, accelerator: Accelerator, region: str) -> None:
    api = cloud.api("admin", region=region)
    (device,) = api.get("/devices").json()["devices"]
    endpoint = api.get_endpoint()
    assert device["links"] == [{"href": f"{endpoint}/devices/{accelerator.device_uuid}", "rel": "self"}]
    token = cloud.access("admin").auth_token
    assert requests.get(device["links"][0]["href"], headers={"X-Auth-Token": token}, timeout=60).json() == device


def test_all_versions_are_listed_without_a_token(accelerator: Accelerator) -> None:
    with requests.Session() as session:
        versions = discover.get_version_data(session, accelerator.url)
    assert [version["id"] for version in versions] == ["v2"]
