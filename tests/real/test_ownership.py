"""Whose an ARQ is: a tenant never sees another's, and what an administrator does for a tenant stays the tenant's."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from tests.real.accelerator import FakeDevice
from tests.real.cloud import Cloud
from tests.real.processes import wait_until

Profile = Callable[..., dict[str, Any]]
ARQS = "/accelerator_requests"


def create(cloud: Cloud, person: str, profile: dict[str, Any], *, service: str | None = None) -> list[dict[str, Any]]:
    """``person`` asks for the profile's accelerators."""
    answer = cloud.api(person, service=service).post(ARQS, json={"device_profile_name": profile["name"]})
    assert answer.status_code == 201, answer.text
    arqs: list[dict[str, Any]] = answer.json()["arqs"]
    return arqs


def bind(cloud: Cloud, person: str, fake: FakeDevice, arqs: list[dict[str, Any]], instance: str) -> None:
    """Nova binds them, acting for ``person``; returns when all are bound."""
    to = {"hostname": fake.hostname, "device_rp_uuid": fake.rp_uuid, "instance_uuid": instance}
    patch = [{"path": f"/{field}", "op": "add", "value": value} for field, value in to.items()]
    answer = cloud.api(person, service="nova").patch(ARQS, json={arq["uuid"]: patch for arq in arqs})
    assert answer.status_code == 202, answer.text
    wait_until(
        "all are bound", lambda: {arq["state"] for arq in seen(cloud, person, instance, service="nova")} == {"Bound"}
    )


def seen(cloud: Cloud, person: str, instance: str, *, service: str | None = None) -> list[dict[str, Any]]:
    """The instance's ARQs as ``person`` sees them."""
    answer = cloud.api(person, service=service).get(ARQS, params={"instance": instance})
    assert answer.status_code == 200, answer.text
    arqs: list[dict[str, Any]] = answer.json()["arqs"]
    return arqs


@pytest.fixture
def bound(cloud: Cloud, fake: FakeDevice, new_profile: Profile, instance: str) -> list[dict[str, Any]]:
    """Two ARQs of the tenant demo, bound to ``instance``."""
    bind(cloud, "demo", fake, create(cloud, "demo", new_profile(amount=2)), instance)
    return seen(cloud, "demo", instance)


def test_the_owner_sees_them_and_so_does_an_administrator(
    cloud: Cloud, bound: list[dict[str, Any]], instance: str
) -> None:
    uuids = {arq["uuid"] for arq in bound}
    assert {arq["project_id"] for arq in bound} == {cloud.project_id("demo")}
    for person in ("demo", "demo-reader", "admin"):
        assert {arq["uuid"] for arq in seen(cloud, person, instance)} == uuids
        assert cloud.api(person).get(f"{ARQS}/{bound[0]['uuid']}").status_code == 200


def test_another_tenant_sees_nothing_of_them(cloud: Cloud, bound: list[dict[str, Any]], instance: str) -> None:
    other = cloud.api("other")
    assert other.get(f"{ARQS}/{bound[0]['uuid']}").status_code == 404
    assert seen(cloud, "other", instance) == []
    assert other.get(ARQS).json()["arqs"] == []


def test_another_tenant_cannot_touch_them_and_learns_nothing(cloud: Cloud, new_profile: Profile) -> None:
    (arq,) = create(cloud, "demo", new_profile())
    other = cloud.api("other")
    assert other.delete(ARQS, params={"arqs": arq["uuid"]}).status_code == 404
    remove = [{"path": f"/{field}", "op": "remove"} for field in ("hostname", "device_rp_uuid", "instance_uuid")]
    assert cloud.api("other", service="nova").patch(ARQS, json={arq["uuid"]: remove}).status_code == 404
    assert cloud.api("demo").delete(ARQS, params={"arqs": arq["uuid"]}).status_code == 204


def test_another_tenant_is_told_of_a_bound_one_what_it_is_told_of_none(
    cloud: Cloud, bound: list[dict[str, Any]]
) -> None:
    other = cloud.api("other")
    real = other.delete(ARQS, params={"arqs": bound[0]["uuid"]})
    made_up = str(uuid.uuid4())
    none = other.delete(ARQS, params={"arqs": made_up})
    assert real.status_code == none.status_code == 404
    assert real.text.replace(bound[0]["uuid"], made_up) == none.text


@pytest.mark.parametrize("person", ["demo", "admin"])
def test_a_bound_one_is_deleted_only_with_a_service_token(
    cloud: Cloud, bound: list[dict[str, Any]], instance: str, person: str
) -> None:
    api = cloud.api(person)
    by_uuid = api.delete(ARQS, params={"arqs": bound[0]["uuid"]})
    assert by_uuid.status_code == 403
    assert "Use the Compute API to manage instance accelerators." in by_uuid.json()["error_message"]

    unbind = [{"path": f"/{field}", "op": "remove"} for field in ("hostname", "device_rp_uuid", "instance_uuid")]
    by_instance = api.delete(ARQS, params={"instance": instance})
    by_patch = api.patch(ARQS, json={bound[0]["uuid"]: unbind})
    text = "This operation requires a service token. Use the Compute API to manage instance accelerators."
    for refused in (by_instance, by_patch):
        assert refused.status_code == 403
        assert text in refused.json()["error_message"]
    assert {arq["state"] for arq in seen(cloud, "demo", instance)} == {"Bound"}

    assert cloud.api(person, service="nova").delete(ARQS, params={"instance": instance}).status_code == 204
    assert seen(cloud, "demo", instance) == []


def test_after_an_evacuation_by_an_administrator_the_tenant_can_still_reboot(
    cloud: Cloud, fake: FakeDevice, new_profile: Profile, instance: str
) -> None:
    """Evacuate deletes, creates and binds with the administrator's token; reboot then asks with the tenant's."""
    profile = new_profile(amount=2)
    bind(cloud, "demo", fake, create(cloud, "demo", profile), instance)

    assert cloud.api("admin", service="nova").delete(ARQS, params={"instance": instance}).status_code == 204
    evacuated = create(cloud, "admin", profile, service="nova")
    bind(cloud, "admin", fake, evacuated, instance)

    for service in ("nova", None):
        found = seen(cloud, "demo", instance, service=service)
        assert {arq["uuid"] for arq in found} == {arq["uuid"] for arq in evacuated}
        assert {arq["project_id"] for arq in found} == {cloud.project_id("demo")}
    assert cloud.api("demo", service="nova").delete(ARQS, params={"instance": instance}).status_code == 204
    assert seen(cloud, "admin", instance, service="nova") == []


def test_a_service_alone_sees_the_arqs_of_any_instance(
    cloud: Cloud, bound: list[dict[str, Any]], instance: str
) -> None:
    assert {arq["uuid"] for arq in seen(cloud, "nova", instance, service="nova")} == {arq["uuid"] for arq in bound}
