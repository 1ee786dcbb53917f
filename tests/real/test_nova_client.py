"""Nova's own client module, of the release that uses openstacksdk and of the last one that used keystoneauth adapters."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from tests.real.accelerator import FakeDevice
from tests.real.cloud import Cloud
from tests.real.nova import NovaClient, NovaError, client
from tests.real.processes import wait_until

Profile = Callable[..., dict[str, Any]]


def bindings(fake: FakeDevice, arqs: list[dict[str, Any]], instance: str) -> dict[str, dict[str, str]]:
    """What Nova's conductor asks for once a host was chosen."""
    to = {"hostname": fake.hostname, "device_rp_uuid": fake.rp_uuid, "instance_uuid": instance}
    return {arq["uuid"]: to for arq in arqs}


def resolved(nova: NovaClient, person: str, instance: str) -> list[dict[str, Any]]:
    """The instance's ARQs once all are resolved, as Nova waits for them."""
    wait_until("all ARQs are resolved", lambda: _all_resolved(nova, person, instance))
    found: list[dict[str, Any]] = nova.call(person, "get_arqs_for_instance", instance, True)
    return found


def _all_resolved(nova: NovaClient, person: str, instance: str) -> bool:
    every = nova.call(person, "get_arqs_for_instance", instance)
    return len(nova.call(person, "get_arqs_for_instance", instance, True)) == len(every)


def test_an_instance_lives_and_dies_with_its_accelerators(
    nova: NovaClient, fake: FakeDevice, new_profile: Profile, instance: str
) -> None:
    name = new_profile(amount=2, groups=2)["name"]

    groups = nova.call("demo", "get_device_profile_request_groups", name)
    assert [group["requester_id"] for group in groups] == ["device_profile_0", "device_profile_1"]
    assert all(group["resources"] == {"FPGA": 2} for group in groups)
    assert all("CUSTOM_FAKE_DEVICE" in group["required_traits"] for group in groups)

    providers = {group["requester_id"]: [fake.rp_uuid] for group in groups}
    arqs = nova.call("demo", "create_arqs_and_match_resource_providers", name, providers)
    assert [arq["device_profile_group_id"] for arq in arqs] == [0, 0, 1, 1]
    assert {arq["state"] for arq in arqs} == {"Initial"}

    nova.call("demo", "bind_arqs", bindings(fake, arqs, instance))
    bound = resolved(nova, "demo", instance)
    assert {arq["state"] for arq in bound} == {"Bound"}
    assert {arq["uuid"] for arq in bound} == {arq["uuid"] for arq in arqs}
    assert {arq["attach_handle_type"] for arq in bound} == {"TEST_PCI"}
    addresses = [tuple(sorted(arq["attach_handle_info"].items())) for arq in bound]
    assert len(set(addresses)) == len(addresses), "a unit was given twice"
    assert all({"domain", "bus", "device", "function"} <= arq["attach_handle_info"].keys() for arq in bound)
    assert nova.call("demo", "get_arq_by_uuid", bound[0]["uuid"]) == bound[0]

    nova.call("demo", "delete_arqs_for_instance", instance)
    with pytest.raises(NovaError, match="no accelerator requests for instance"):
        nova.call("demo", "get_arqs_for_instance", instance)
    nova.call("demo", "delete_arqs_for_instance", instance)


def test_arqs_of_a_boot_that_failed_are_deleted_by_uuid(nova: NovaClient, cloud: Cloud, new_profile: Profile) -> None:
    arqs = nova.call("demo", "create_arqs", new_profile(amount=3)["name"])
    nova.call("demo", "delete_arqs_by_uuid", [arq["uuid"] for arq in arqs])
    left = {arq["uuid"] for arq in cloud.api("demo").get("/accelerator_requests").json()["arqs"]}
    assert left.isdisjoint(arq["uuid"] for arq in arqs)
    nova.call("demo", "delete_arqs_by_uuid", [arq["uuid"] for arq in arqs])


def test_deleting_by_uuid_deletes_the_existing_ones_although_one_is_gone(
    nova: NovaClient, cloud: Cloud, new_profile: Profile
) -> None:
    first, second = nova.call("demo", "create_arqs", new_profile(amount=2)["name"])
    nova.call("demo", "delete_arqs_by_uuid", [first["uuid"]])
    nova.call("demo", "delete_arqs_by_uuid", [first["uuid"], second["uuid"]])
    assert cloud.api("demo").get(f"/accelerator_requests/{second['uuid']}").status_code == 404


@pytest.mark.parametrize(
    ("method", "arguments", "kind"),
    [
        ("get_device_profile_groups", ["there-is-no-such-profile"], "DeviceProfileError"),
        ("create_arqs", ["there-is-no-such-profile"], "AcceleratorRequestOpFailed"),
        ("get_arq_by_uuid", [str(uuid.uuid4())], "AcceleratorRequestOpFailed"),
        ("get_arqs_for_instance", [str(uuid.uuid4())], "AcceleratorRequestOpFailed"),
        ("get_arqs_for_instance", ["no-uuid"], "AcceleratorRequestOpFailed"),
        ("delete_arqs_for_instance", ["no-uuid"], "AcceleratorRequestOpFailed"),
    ],
)
def test_what_is_wrong_reaches_nova_as_the_exception_it_expects(
    nova: NovaClient, method: str, arguments: list[str], kind: str
) -> None:
    with pytest.raises(NovaError) as raised:
        nova.call("demo", method, *arguments)
    assert raised.value.kind == kind


@pytest.mark.parametrize("wrong", ["hostname", "device_rp_uuid"])
def test_a_bind_that_cannot_be_fails_and_leaves_the_arqs_to_try_again(
    nova: NovaClient, fake: FakeDevice, new_profile: Profile, instance: str, wrong: str
) -> None:
    arqs = nova.call("demo", "create_arqs", new_profile(amount=2)["name"])
    wanted = bindings(fake, arqs, instance)
    spoilt = {key: {**to} for key, to in wanted.items()}
    spoilt[arqs[1]["uuid"]][wrong] = {"hostname": "no-such-host", "device_rp_uuid": str(uuid.uuid4())}[wrong]
    with pytest.raises(NovaError) as raised:
        nova.call("demo", "bind_arqs", spoilt)
    assert raised.value.kind == "AcceleratorRequestBindingFailed"

    nova.call("demo", "bind_arqs", wanted)
    assert {arq["state"] for arq in resolved(nova, "demo", instance)} == {"Bound"}


def test_more_than_the_host_has_is_refused_whole(
    nova: NovaClient, cloud: Cloud, fake: FakeDevice, new_profile: Profile, instance: str
) -> None:
    arqs = nova.call("demo", "create_arqs", new_profile(amount=17)["name"])
    with pytest.raises(NovaError) as raised:
        nova.call("demo", "bind_arqs", bindings(fake, arqs, instance))
    assert raised.value.kind == "AcceleratorRequestBindingFailed"
    assert cloud.api("demo").get("/accelerator_requests", params={"instance": instance}).json() == {"arqs": []}
    nova.call("demo", "delete_arqs_by_uuid", [arq["uuid"] for arq in arqs])


def test_a_nova_without_service_tokens_cannot_bind(
    cloud: Cloud, directory: Any, fake: FakeDevice, new_profile: Profile, instance: str
) -> None:
    name = new_profile()["name"]
    with client("34.0.0", cloud, directory, service_token=False) as nova:
        arqs = nova.call("demo", "create_arqs", name)
        with pytest.raises(NovaError) as raised:
            nova.call("demo", "bind_arqs", bindings(fake, arqs, instance))
        assert raised.value.kind == "AcceleratorRequestBindingFailed"
        nova.call("demo", "delete_arqs_by_uuid", [arq["uuid"] for arq in arqs])
