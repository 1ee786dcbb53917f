"""openstacksdk's ``conn.accelerator``: every method that works against Cyborg works here."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import openstack.connection
import openstack.exceptions
import pytest
from tests.real.accelerator import FakeDevice
from tests.real.cloud import Cloud
from tests.real.processes import wait_until

Profile = Callable[..., dict[str, Any]]
NOWHERE = str(uuid.uuid4())

#: openstacksdk warns in its own code about what it will drop.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")


@pytest.fixture(scope="module")
def connect(cloud: Cloud) -> Iterator[Callable[..., Any]]:
    """Connections of openstacksdk by person, closed in the end; ``service`` adds that user's service token to each request."""
    made = []

    def connection(person: str, *, service: str | None = None, **options: Any) -> Any:
        session = cloud.session(person, service=service)
        made.append(openstack.connection.Connection(session=session, region_name="RegionOne", **options))
        return made[-1].accelerator

    yield connection
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def admin(connect: Callable[..., Any]) -> Any:
    """``conn.accelerator`` of the administrator."""
    return connect("admin")


@pytest.fixture(scope="module")
def nova(connect: Callable[..., Any]) -> Any:
    """``conn.accelerator`` as Nova uses it: with the tenant's token and a service token of its own."""
    return connect("demo", service="nova")


def test_devices_are_listed_filtered_and_shown(admin: Any, fake: FakeDevice) -> None:
    (device,) = admin.devices(hostname=fake.hostname)
    assert device.type == "FPGA"
    assert device.hostname == fake.hostname
    assert admin.get_device(device.uuid).to_dict() == {
        **device.to_dict(),
        "location": admin.get_device(device.uuid).location,
    }
    assert [found.uuid for found in admin.devices(type="FPGA", vendor=device.vendor)] == [device.uuid]
    assert list(admin.devices(type="GPU")) == []
    assert list(admin.devices(vendor="0x0000")) == []


def test_a_device_is_disabled_and_enabled(connect: Callable[..., Any], fake: FakeDevice) -> None:
    admin = connect("admin", accelerator_default_microversion="2.3")
    (device,) = admin.devices(hostname=fake.hostname)
    assert device.status == "enabled"
    admin.disable_device(device.uuid)
    try:
        assert admin.get_device(device.uuid).status == "maintaining"
    finally:
        admin.enable_device(device.uuid)
    assert admin.get_device(device.uuid).status == "enabled"


def test_deployables_are_listed_and_shown(admin: Any, fake: FakeDevice) -> None:
    found = {deployable.id: deployable for deployable in admin.deployables()}
    deployable = found[fake.deployable_uuid]
    assert deployable.num_accelerators == 16
    assert deployable.device_id is not None
    assert admin.get_deployable(deployable.id).name == deployable.name


def test_programming_what_cannot_be_programmed_is_a_conflict(admin: Any, fake: FakeDevice) -> None:
    """The SDK asks for ``…/program/<uuid>``, which Cyborg does not have (405); here both paths say what is the matter."""
    patch = [{"path": "/program", "op": "replace", "value": [{"image_uuid": NOWHERE}]}]
    with pytest.raises(openstack.exceptions.ConflictException) as refused:
        admin.patch_deployable(fake.deployable_uuid, patch)
    assert "program" in str(refused.value.details)


def test_a_profile_is_made_listed_shown_and_deleted(admin: Any) -> None:
    name = f"sdk-{uuid.uuid4().hex[:8]}"
    groups = [{"resources:FPGA": "1", "trait:CUSTOM_FAKE_DEVICE": "required"}]
    made = admin.create_device_profile(name=name, groups=groups, description="made by openstacksdk")
    try:
        assert made.uuid
        assert made.groups == groups
        assert made.description == "made by openstacksdk"
        assert made.created_at
        assert [found.uuid for found in admin.device_profiles(name=name)] == [made.uuid]
        assert made.uuid in {found.uuid for found in admin.device_profiles()}
        shown = admin.get_device_profile(made.uuid)
        assert (shown.uuid, shown.name, shown.groups) == (made.uuid, name, groups)
        with pytest.raises(openstack.exceptions.ConflictException) as conflict:
            admin.create_device_profile(name=name, groups=groups)
        assert name in str(conflict.value)
    finally:
        admin.delete_device_profile(made.uuid, ignore_missing=False)
    with pytest.raises(openstack.exceptions.NotFoundException):
        admin.get_device_profile(made.uuid)
    admin.delete_device_profile(made.uuid)


def test_a_profile_is_fetched_by_name_from_microversion_2_2_on(
    connect: Callable[..., Any], admin: Any, new_profile: Profile
) -> None:
    profile = new_profile()
    later = connect("admin", accelerator_default_microversion="2.2")
    assert later.get_device_profile(profile["name"]).uuid == profile["uuid"]
    with pytest.raises(openstack.exceptions.HttpException) as refused:
        admin.get_device_profile(profile["name"])
    assert refused.value.status_code == 406


def test_a_microversion_that_is_not_served_is_refused_before_it_is_asked(connect: Callable[..., Any]) -> None:
    with pytest.raises(openstack.exceptions.SDKException):
        list(connect("admin", accelerator_default_microversion="2.99").devices())


def test_an_arq_is_made_bound_unbound_and_deleted(
    admin: Any, nova: Any, connect: Callable[..., Any], fake: FakeDevice, new_profile: Profile, instance: str
) -> None:
    demo = connect("demo")
    arq = demo.create_accelerator_request(device_profile_name=new_profile()["name"])
    assert (arq.state, arq.device_profile_group_id, arq.attach_handle_info) == ("Initial", 0, {})
    assert demo.get_accelerator_request(arq.uuid).uuid == arq.uuid
    assert arq.uuid in {found.uuid for found in demo.accelerator_requests()}

    target = {"hostname": fake.hostname, "device_rp_uuid": fake.rp_uuid, "instance_uuid": instance}
    nova.patch_accelerator_request(
        arq.uuid, [{"path": f"/{field}", "op": "add", "value": value} for field, value in target.items()]
    )
    wait_until("the ARQ is bound", lambda: demo.get_accelerator_request(arq.uuid).state == "Bound")
    (bound,) = demo.accelerator_requests(instance=instance)
    assert {field: bound[field] for field in target} == target
    assert bound.attach_handle_type == "TEST_PCI"
    assert [found.uuid for found in demo.accelerator_requests(instance=instance, bind_state="resolved")] == [arq.uuid]

    nova.patch_accelerator_request(arq.uuid, [{"path": f"/{field}", "op": "remove"} for field in target])
    unbound = demo.get_accelerator_request(arq.uuid)
    assert (unbound.state, unbound.hostname, unbound.instance_uuid) == ("Unbound", None, None)

    nova.update_accelerator_request(
        arq.uuid, [{"path": f"/{field}", "op": "add", "value": value} for field, value in target.items()]
    )
    wait_until("the ARQ is bound again", lambda: demo.get_accelerator_request(arq.uuid).state == "Bound")

    nova.delete_accelerator_request(arq.uuid, ignore_missing=False)
    with pytest.raises(openstack.exceptions.NotFoundException):
        demo.get_accelerator_request(arq.uuid)
    demo.delete_accelerator_request(arq.uuid)
    with pytest.raises(openstack.exceptions.NotFoundException):
        demo.delete_accelerator_request(arq.uuid, ignore_missing=False)


def test_attributes_are_listed_made_shown_and_deleted(admin: Any, fake: FakeDevice) -> None:
    reported = list(admin.attributes(deployable_id=fake.deployable_id))
    assert ("rc", "FPGA") in {(attribute.key, attribute.value) for attribute in reported}
    assert "CUSTOM_FAKE_DEVICE" in {attribute.value for attribute in reported}
    assert {attribute.value for attribute in admin.attributes(key="rc")} == {"FPGA"}

    made = admin.create_attribute(deployable_id=fake.deployable_id, key="rack", value="r12")  # Cyborg answers 500
    shown = admin.get_attribute(made.uuid)
    assert (shown.deployable_id, shown.key, shown.value) == (fake.deployable_id, "rack", "r12")
    admin.delete_attribute(shown.uuid, ignore_missing=False)
    with pytest.raises(openstack.exceptions.NotFoundException):
        admin.get_attribute(shown.uuid)


@pytest.mark.parametrize(
    "method", ["get_device", "get_deployable", "get_device_profile", "get_accelerator_request", "get_attribute"]
)
def test_what_does_not_exist_is_not_found(admin: Any, method: str) -> None:
    with pytest.raises(openstack.exceptions.NotFoundException) as missing:
        getattr(admin, method)(NOWHERE)
    assert NOWHERE in str(missing.value.details), "the fault's text has to survive the SDK's unwrapping"
