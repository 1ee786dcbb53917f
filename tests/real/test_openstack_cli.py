"""Every ``openstack accelerator`` command, once as python-openstackclient has it and once as python-cyborgclient does."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

from tests.real.accelerator import Accelerator, FakeDevice
from tests.real.cloud import Cloud
from tests.real.openstack_cli import OpenStackCli
from tests.real.processes import wait_until

Profile = Callable[..., dict[str, Any]]


def arq_bind_words(openstack: OpenStackCli, fake: FakeDevice, cloud: Cloud, arq: str, instance: str) -> list[str]:
    """The two clients take the same things in another order, and python-cyborgclient a project besides."""
    head = ["accelerator", "arq", "bind", arq, fake.hostname, instance, fake.rp_uuid]
    return head if openstack.flavour == "python-openstackclient" else [*head, cloud.project_id("nova")]


#: What both clients have, and what this module runs.
COMMANDS = {
    *(f"device {verb}" for verb in ("list", "show", "enable", "disable")),
    *(f"device profile {verb}" for verb in ("list", "show", "create", "delete")),
    *(f"device attribute {verb}" for verb in ("list", "show", "create", "delete")),
    *(f"deployable {verb}" for verb in ("list", "show", "program")),
    *(f"arq {verb}" for verb in ("list", "show", "create", "delete", "bind", "unbind")),
}


def test_these_are_all_the_commands_of_the_client_under_test(openstack: OpenStackCli) -> None:
    groups = openstack.json("admin", "command", "list", "--group", "openstack.accelerator")
    commands = [command for group in groups for command in group["Commands"]]
    assert {command.removeprefix("accelerator ") for command in commands} == COMMANDS
    help_of_bind = openstack.text("admin", "accelerator", "arq", "bind", "--help")
    assert ("project_id" in help_of_bind) == (openstack.flavour == "python-cyborgclient")


def test_devices_are_listed_and_shown(openstack: OpenStackCli, fake: FakeDevice) -> None:
    (device,) = openstack.json("admin", "accelerator", "device", "list")
    assert list(device) == ["uuid", "type", "vendor", "hostname", "std_board_info"]
    assert (device["type"], device["hostname"]) == ("FPGA", fake.hostname)
    (long,) = openstack.json("admin", "accelerator", "device", "list", "--long")
    assert {"created_at", "updated_at", "model", "vendor_board_info"} <= long.keys()
    shown = openstack.json("admin", "accelerator", "device", "show", device["uuid"])
    assert shown["uuid"] == device["uuid"]


def test_a_device_is_disabled_and_enabled(openstack: OpenStackCli, cloud: Cloud, fake: FakeDevice) -> None:
    device = f"/devices/{fake.device_uuid}"
    version = {"OpenStack-API-Version": "accelerator 2.3"}
    for verb, status in (("disable", "maintaining"), ("enable", "enabled")):
        openstack.text("admin", "accelerator", "device", verb, fake.device_uuid)
        assert cloud.api("admin").get(device, headers=version).json()["status"] == status


def test_deployables_are_listed_and_shown(openstack: OpenStackCli, fake: FakeDevice) -> None:
    (deployable,) = openstack.json("admin", "accelerator", "deployable", "list")
    assert list(deployable) == ["uuid", "name", "device_id"]
    (long,) = openstack.json("admin", "accelerator", "deployable", "list", "--long")
    assert long["num_accelerators"] == 16
    shown = openstack.json("admin", "accelerator", "deployable", "show", fake.deployable_uuid)
    assert shown["name"] == deployable["name"]


def test_programming_what_cannot_be_programmed_is_an_error(openstack: OpenStackCli, fake: FakeDevice) -> None:
    words = ["accelerator", "deployable", "program", fake.deployable_uuid, str(uuid.uuid4())]
    refused = openstack.run("admin", *words)
    assert refused.status != 0
    if openstack.flavour == "python-openstackclient":
        assert "program" in refused.errors
    else:
        assert "recursion" in refused.errors, "openstacksdk's update_deployable calls itself: no server is ever asked"


def test_a_profile_is_made_listed_shown_and_deleted(openstack: OpenStackCli) -> None:
    name = f"cli-{uuid.uuid4().hex[:8]}"
    groups = [{"resources:FPGA": "1", "trait:CUSTOM_FAKE_DEVICE": "required"}]
    words = ["accelerator", "device", "profile"]
    if openstack.flavour == "python-cyborgclient":
        given = [json.dumps(groups)]
    else:
        given = ["--group", ",".join(f"{key}={value}" for key, value in groups[0].items())]
    made = openstack.json("admin", *words, "create", name, *given, "--description", "made by a command")
    assert (made["name"], made["description"]) == (name, "made by a command")

    listed = {profile["name"]: profile for profile in openstack.json("admin", *words, "list")}
    assert list(listed[name]) == ["uuid", "name", "groups", "description"]
    assert listed[name]["groups"] == groups
    assert "created_at" in openstack.json("admin", *words, "list", "--long")[0]
    shown = openstack.json("admin", *words, "show", made["uuid"])
    assert (shown["uuid"], shown["name"]) == (made["uuid"], name)

    openstack.text("admin", *words, "delete", made["uuid"])
    missing = openstack.run("admin", *words, "delete", made["uuid"])
    assert missing.status != 0
    assert made["uuid"] in missing.errors


def test_an_arq_is_made_bound_unbound_and_deleted_where_no_keystone_asks(
    openstack: OpenStackCli, cloud: Cloud, standalone: Accelerator
) -> None:
    """Binding is for services, and these commands cannot send service tokens: so here they talk to a Cantle without Keystone."""
    person, name = "standalone", f"cli-{uuid.uuid4().hex[:8]}"
    profile = [{"name": name, "groups": [{"resources:FPGA": "1", "trait:CUSTOM_FAKE_DEVICE": "required"}]}]
    assert standalone.call("POST", "/v2/device_profiles", profile)["name"] == name
    words = ["accelerator", "arq"]
    made = openstack.json(person, *words, "create", name)
    assert made["state"] == "Initial"
    listed = {arq["uuid"]: arq for arq in openstack.json(person, *words, "list")}
    assert list(listed[made["uuid"]])[:3] == ["uuid", "state", "device_profile_name"]
    assert "hostname" in openstack.json(person, *words, "list", "--long")[0]
    assert openstack.json(person, *words, "show", made["uuid"])["uuid"] == made["uuid"]

    instance = str(uuid.uuid4())
    device = FakeDevice.found(lambda method, path: standalone.call(method, f"/v2{path}"))
    bind = arq_bind_words(openstack, device, cloud, made["uuid"], instance)
    assert openstack.json(person, *bind)["instance_uuid"] == instance
    wait_until("the ARQ is bound", lambda: openstack.json(person, *words, "show", made["uuid"])["state"] == "Bound")
    unbound = openstack.json(person, *words, "unbind", made["uuid"])
    assert (unbound["state"], unbound["instance_uuid"]) == ("Unbound", None)

    openstack.text(person, *words, "delete", made["uuid"])
    missing = openstack.run(person, *words, "delete", made["uuid"])
    assert missing.status != 0
    assert made["uuid"] in missing.errors


def test_binding_without_a_service_token_is_refused_and_says_why(
    openstack: OpenStackCli, cloud: Cloud, fake: FakeDevice, new_profile: Profile, instance: str
) -> None:
    made = openstack.json("demo", "accelerator", "arq", "create", new_profile()["name"])
    refused = openstack.run("demo", *arq_bind_words(openstack, fake, cloud, made["uuid"], instance))
    assert refused.status != 0
    assert "requires a service token" in refused.errors
    openstack.text("demo", "accelerator", "arq", "delete", made["uuid"])


def test_attributes_are_listed_made_shown_and_deleted(openstack: OpenStackCli, cloud: Cloud, fake: FakeDevice) -> None:
    words = ["accelerator", "device", "attribute"]
    listed = openstack.json("admin", *words, "list")
    assert list(listed[0]) == ["uuid", "deployable_id", "key", "value"]
    assert ("rc", "FPGA") in {(attribute["key"], attribute["value"]) for attribute in listed}
    assert "created_at" in openstack.json("admin", *words, "list", "--long")[0]

    number = str(fake.deployable_id)
    made = openstack.json("admin", *words, "create", number, "rack", "r12")  # Cyborg answers 500
    assert (made["key"], made["value"]) == ("rack", "r12")
    assert openstack.json("admin", *words, "show", made["uuid"])["value"] == "r12"
    openstack.text("admin", *words, "delete", made["uuid"])
    assert openstack.run("admin", *words, "show", made["uuid"]).status != 0
