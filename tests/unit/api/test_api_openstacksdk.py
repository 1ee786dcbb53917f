"""openstacksdk, unmodified, against a served Cantle: what operators' scripts do (contract section 5.2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session
from openstack import exceptions
from openstack.connection import Connection
from tests.stories.world import World
from tests.unit.api.served import served

#: The SDK warns of what it itself does.
pytestmark = pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning")


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[tuple[Any, World]]:
    """The SDK's accelerator proxy with the endpoint a catalog would name, and the world behind it."""
    with served(tmp_path) as (url, world):
        yield _connect(f"{url}/v2").accelerator, world


def _connect(endpoint: str, **options: Any) -> Any:
    session = Session(auth=NoAuth(endpoint=endpoint))
    return Connection(session=session, accelerator_endpoint_override=endpoint, **options)


def test_devices_are_listed_filtered_and_shown(cloud: tuple[Any, World]) -> None:
    accelerator, _ = cloud
    devices = list(accelerator.devices())
    assert [device.hostname for device in devices] == ["h1", "h1"]
    assert list(accelerator.devices(type="FPGA")) == []
    assert accelerator.get_device(devices[0].uuid).model == "TU104GL [Tesla T4]"


def test_a_list_is_walked_page_by_page(cloud: tuple[Any, World]) -> None:
    """The SDK documents limit and marker, which Cyborg answers with 400."""
    accelerator, _ = cloud
    whole = [device.uuid for device in accelerator.devices()]
    assert [device.uuid for device in accelerator.devices(limit=1)] == whole


def test_a_device_is_taken_out_of_service_and_back(tmp_path: Path) -> None:
    with served(tmp_path) as (url, _):
        accelerator = _connect(f"{url}/v2", accelerator_default_microversion="2.3").accelerator
        device = next(accelerator.devices())
        assert device.status == "enabled"
        accelerator.disable_device(device.uuid)
        assert accelerator.get_device(device.uuid).status == "maintaining"
        accelerator.enable_device(device.uuid)
        assert accelerator.get_device(device.uuid).status == "enabled"


def test_deployables_are_listed_and_shown_and_programming_says_why_not(cloud: tuple[Any, World]) -> None:
    accelerator, _ = cloud
    deployable = next(accelerator.deployables())
    assert accelerator.get_deployable(deployable.id).num_accelerators == 2
    image = "9a17439a-85d0-4c53-a3d3-0f68a2eac896"
    with pytest.raises(exceptions.ConflictException, match="cannot be programmed"):
        accelerator.patch_deployable(
            deployable.id, [{"path": "/program", "op": "replace", "value": [{"image_uuid": image}]}]
        )


def test_profiles_are_created_listed_shown_and_deleted(cloud: tuple[Any, World]) -> None:
    accelerator, _ = cloud
    groups = [{"resources:VGPU": "1", "trait:CUSTOM_NVIDIA_1EB8_T4_2B": "required"}]
    made = accelerator.create_device_profile(name="gold", groups=groups, description="one vGPU")
    assert (made.name, made.groups, made.description) == ("gold", groups, "one vGPU")
    assert [profile.name for profile in accelerator.device_profiles()] == ["gold"]
    assert accelerator.get_device_profile(made.uuid).groups == groups
    accelerator.delete_device_profile(made.uuid)
    assert list(accelerator.device_profiles()) == []


def test_a_refusal_reaches_the_user_as_a_plain_sentence(cloud: tuple[Any, World]) -> None:
    """The SDK takes the sentence out of the doubly encoded body."""
    accelerator, _ = cloud
    groups = [{"resources:VGPU": "1"}]
    accelerator.create_device_profile(name="gold", groups=groups)
    with pytest.raises(exceptions.ConflictException) as refusal:
        accelerator.create_device_profile(name="gold", groups=groups)
    assert refusal.value.details == "A device profile named gold exists already; choose another name."


def test_a_request_is_created_bound_unbound_and_deleted(cloud: tuple[Any, World]) -> None:
    accelerator, world = cloud
    accelerator.create_device_profile(name="gold", groups=[{"resources:VGPU": "1"}])
    made = accelerator.create_accelerator_request(device_profile_name="gold")
    assert (made.state, made.device_profile_group_id) == ("Initial", 0)
    provider = world.call("GET", "/v2/deployables").json["deployables"][0]["rp_uuid"]
    instance = "a89758ac-e4cb-4c2a-8394-992f539b8d3e"
    accelerator.patch_accelerator_request(
        made.uuid,
        [
            {"path": "/hostname", "op": "add", "value": "h1"},
            {"path": "/device_rp_uuid", "op": "add", "value": provider},
            {"path": "/instance_uuid", "op": "add", "value": instance},
        ],
    )
    _host_makes_all_ready(world)
    bound = accelerator.get_accelerator_request(made.uuid)
    assert (bound.state, bound.attach_handle_type) == ("Bound", "MDEV")
    assert [request.uuid for request in accelerator.accelerator_requests(instance=instance)] == [made.uuid]
    accelerator.patch_accelerator_request(made.uuid, [{"path": "/hostname", "op": "remove"}])
    assert accelerator.get_accelerator_request(made.uuid).state == "Unbound"
    accelerator.delete_accelerator_request(made.uuid, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        accelerator.get_accelerator_request(made.uuid)


def test_attributes_are_created_listed_shown_and_deleted(cloud: tuple[Any, World]) -> None:
    """Creating one fails against Cyborg, which does not unwrap what the SDK sends."""
    accelerator, _ = cloud
    reported = next(accelerator.attributes())
    made = accelerator.create_attribute(deployable_id=reported.deployable_id, key="rack", value="7")
    assert accelerator.get_attribute(made.uuid).value == "7"
    accelerator.delete_attribute(made.uuid, ignore_missing=False)
    assert "rack" not in [attribute.key for attribute in accelerator.attributes()]


def test_the_address_of_a_mount_point_is_found_by_discovery(tmp_path: Path) -> None:
    """The SDK takes the self link of the version document for its base URL: a wrong one breaks everything."""
    with served(tmp_path, mount="/accelerator") as (root, _):
        accelerator = _connect(root).accelerator
        assert accelerator.get_endpoint_data().url == f"{root}/v2/"
        assert [device.hostname for device in accelerator.devices()] == ["h1", "h1"]


def _host_makes_all_ready(world: World) -> None:
    work = world.call("GET", "/v1/hosts/h1/work", agent=True).json
    results = [{"uuid": unit["uuid"], "outcome": "ready"} for unit in work["wanted"]]
    body = {"agent_start": "s1", "generation": work["generation"], "results": results}
    assert world.call("POST", "/v1/hosts/h1/results", body=body, agent=True).status_code == 204
