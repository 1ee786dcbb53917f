"""Servers of the tenant ``demo``, made and watched with the ``openstack`` command and openstacksdk; and what they leave."""

from __future__ import annotations

from typing import Any

from keystoneauth1.adapter import Adapter
from openstack.connection import Connection
from requests import Response
from tests.openstack.nova import MICROVERSION
from tests.openstack.stack import HOSTS, Stack
from tests.real.openstack_cli import OpenStackCli
from tests.real.processes import wait_until

_SLICE = {"resources:VGPU": "1", "trait:CUSTOM_NVIDIA_1EB8_T4_2B": "required"}
_WHOLE = {"resources:PGPU": "1"}

#: Flavor: (device profile, its groups). A slice of a T4, a whole M40, and both for one server.
FLAVORS = {
    "slice": ("slice-of-t4", [_SLICE]),
    "whole": ("whole-m40", [_WHOLE]),
    "both": ("slice-and-whole", [_SLICE, _WHOLE]),
}

T4, M40 = "0000:af:00.0", "0000:86:00.0"

#: What Nova may take for one action. It is never long; the machine may be busy.
_PATIENCE_S = 90.0


class Servers:
    """Servers by name. Everything is asked of the real services."""

    def __init__(self, stack: Stack, openstack: OpenStackCli) -> None:
        self.stack, self.openstack = stack, openstack
        self.image = ""

    def prepare(self) -> None:
        """Wait for both computes and all four cards in Placement; make an image, device profiles and flavors as docs/openstack.md does."""
        self.wait_for_computes()
        cards = {f"{host}_{address}" for host in HOSTS for address in (T4, M40)}
        wait_until("all cards are published", lambda: cards <= set(self.providers()), seconds=120)
        image = {"name": "tiny", "disk_format": "raw", "container_format": "bare", "visibility": "public"}
        self.image = self.api("admin", "image").post("/v2/images", json=image).json()["id"]
        data = {"Content-Type": "application/octet-stream"}
        self.api("admin", "image").put(f"/v2/images/{self.image}/file", data=b"\0" * 4096, headers=data)
        for flavor, (profile, groups) in FLAVORS.items():
            asked = []
            for group in groups:
                asked += ["--group", ",".join(f"{key}={value}" for key, value in group.items())]
            self.openstack.text("admin", "accelerator", "device", "profile", "create", *asked, profile)
            size = ("--ram", "64", "--disk", "1", "--vcpus", "1")
            asks = ["--property", f"accel:device_profile={profile}"]
            if len(groups) > 1:  # Placement wants to be told whether they may be of one card
                asks += ["--property", "group_policy=none"]
            self.openstack.text("admin", "flavor", "create", *size, *asks, flavor)

    def create(self, name: str, flavor: str) -> str:
        """Ask for a server, with the ``openstack`` command; its uuid."""
        words = ("--flavor", flavor, "--image", self.image, "--no-network", name)
        made: str = self.openstack.json("demo", *self._compute("server", "create"), *words)["id"]
        return made

    def create_many(self, name: str, flavor: str, count: int) -> list[str]:
        """Ask for so many servers in one call; their uuids."""
        body = {"name": name, "imageRef": self.image, "flavorRef": self._flavor(flavor), "networks": "none"}
        many = {"min_count": count, "max_count": count, "return_reservation_id": True}
        answer = self.api("demo", "compute").post("/servers", json={"server": {**body, **many}})
        assert answer.status_code == 202, answer.text
        query = {"reservation_id": answer.json()["reservation_id"]}
        listed = self.api("demo", "compute").get("/servers", params=query)
        return [one["id"] for one in listed.json()["servers"]]

    def boot(self, name: str, flavor: str) -> str:
        """A server that has to become ACTIVE."""
        uuid = self.create(name, flavor)
        self.wait_for(uuid, "ACTIVE")
        return uuid

    def create_by_sdk(self, name: str, flavor: str) -> str:
        """Ask for a server, with openstacksdk; its uuid."""
        with Connection(session=self.stack.cloud.session("demo"), region_name="RegionOne") as connection:
            compute = connection.compute
            flavor_id = compute.find_flavor(flavor, ignore_missing=False).id
            made = compute.create_server(name=name, flavor_id=flavor_id, image_id=self.image, networks="none")
            return str(made.id)

    def wait_for(
        self, uuid: str, *wanted: str, seconds: float = _PATIENCE_S, host: str | None = None
    ) -> dict[str, Any]:
        """The server, as soon as it is in one of these states and nothing is under way with it; on this host, where one is named."""
        seen: dict[str, Any] = {}

        def there() -> bool:
            seen.update(self.show(uuid))
            idle = seen["OS-EXT-STS:task_state"] is None and host in (None, seen["OS-EXT-SRV-ATTR:host"])
            return seen["status"] == "ERROR" or (idle and seen["status"] in wanted)

        wait_until(f"server {uuid} is {' or '.join(wanted)}", there, seconds=seconds)
        assert seen["status"] in wanted, f"{seen['status']}: {seen.get('fault')}"
        return seen

    def show(self, uuid: str) -> dict[str, Any]:
        """A server as an administrator sees it."""
        answer = self.api("admin", "compute").get(f"/servers/{uuid}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["server"]
        return found

    def act(self, uuid: str, action: str, body: object = None, *, person: str = "demo") -> None:
        """An action of Nova's API that has to be accepted."""
        answer = self.try_to(uuid, action, body, person=person)
        assert answer.status_code < 300, f"{action}: {answer.text}"

    def try_to(self, uuid: str, action: str, body: object = None, *, person: str = "admin") -> Response:
        """An action of Nova's API, whatever it answers."""
        return self.api(person, "compute").post(f"/servers/{uuid}/action", json={action: body})

    def delete(self, uuid: str) -> None:
        """Delete a server, until Nova does not know it any more."""
        self.openstack.text("demo", *self._compute("server", "delete"), uuid)
        self._gone(uuid)

    def serve(self, model: str, *, usable: bool) -> None:
        """Take all cards of a model out of service, or put them back."""
        admin = self.api("admin", "accelerator")
        cards = [one for one in admin.get("/devices").json()["devices"] if model in one["model"]]
        assert cards, model
        for card in cards:
            path = f"/devices/{card['uuid']}/{'enable' if usable else 'disable'}"
            answer = admin.post(path, microversion="2.3")
            assert answer.status_code == 204, answer.text

    def delete_all(self) -> None:
        """Whatever there is."""
        compute = self.api("admin", "compute")
        uuids = [one["id"] for one in compute.get("/servers?all_tenants=1").json()["servers"]]
        for uuid in uuids:
            compute.delete(f"/servers/{uuid}")
        for uuid in uuids:
            self._gone(uuid)

    def arqs(self, uuid: str) -> list[dict[str, Any]]:
        """A server's accelerator requests, as its tenant sees them."""
        answer = self.api("demo", "accelerator").get("/accelerator_requests", params={"instance": uuid})
        assert answer.status_code == 200, answer.text
        return [one for one in answer.json()["arqs"] if one["instance_uuid"] == uuid]

    def allocation(self, uuid: str) -> dict[str, dict[str, int]]:
        """What Placement has allocated to a server on providers of cards: by the provider's name, resources by class."""
        answer = self.api("admin", "placement").get(f"/allocations/{uuid}")
        assert answer.status_code == 200, answer.text
        names = {provider: name for name, provider in self.providers().items()}
        found = {names[provider]: each["resources"] for provider, each in answer.json()["allocations"].items()}
        return {name: resources for name, resources in found.items() if name not in HOSTS}

    def unavailable(self, host: str, resource_class: str) -> int:
        """How many units of a class a host cannot lend, as ``cantle capacity`` shows it."""
        rows = self.stack.cantle.rows("admin", "capacity")
        (row,) = [row for row in rows if (row["hostname"], row["resource_class"]) == (host, resource_class)]
        return int(row["total"] - row["free"])

    def free(self, resource_class: str) -> int:
        """How many units of a class can be lent, on all hosts."""
        rows = self.stack.cantle.rows("admin", "capacity")
        return sum(row["free"] for row in rows if row["resource_class"] == resource_class)

    def computes_say(self) -> str:
        """Whatever the computes have logged so far."""
        return "".join(compute.log.read_text(errors="replace") for compute in self.stack.nova.computes.values())

    def event_received(self, arq: str) -> bool:
        """Whether a compute has been told of this request, by its own words."""
        return f"Received event accelerator-request-bound-{arq}" in self.computes_say()

    def outcomes(self, arq: str) -> list[tuple[str, str]]:
        """What Nova was told of a request and what came of it, as ``cantle events`` shows it."""
        rows = self.stack.cantle.rows("admin", "events", "--about", arq, "-o", "json")
        return [(row["body"]["status"], row["outcome"]) for row in rows]

    def force_down(self, host: str, down: bool) -> None:
        """Tell Nova that a compute is dead, or that it is not; it may want the compute to have looked round first after an evacuation."""
        compute = self.api("admin", "compute")
        (service,) = compute.get(f"/os-services?binary=nova-compute&host={host}").json()["services"]
        path, body = f"/os-services/{service['id']}", {"forced_down": down}
        wait_until(f"Nova takes {body} of {host}", lambda: compute.put(path, json=body).status_code == 200, seconds=120)

    def wait_for_computes(self) -> None:
        """Until Nova calls all of them up."""
        wait_until("all computes are up", lambda: self._computes() == set(HOSTS), seconds=180)

    def published(self, host: str) -> dict[str, Any]:
        """What Placement has of a host's cards: by the provider's name, its inventories and traits."""
        placement = self.api("admin", "placement")
        found = {}
        for name, uuid in self.providers().items():
            if name.startswith(f"{host}_"):
                inventories = placement.get(f"/resource_providers/{uuid}/inventories").json()["inventories"]
                traits = placement.get(f"/resource_providers/{uuid}/traits").json()["traits"]
                found[name] = (inventories, sorted(traits))
        return found

    def providers(self) -> dict[str, str]:
        """Placement's resource providers: uuids by name."""
        answer = self.api("admin", "placement").get("/resource_providers")
        assert answer.status_code == 200, answer.text
        return {one["name"]: one["uuid"] for one in answer.json()["resource_providers"]}

    def assert_nothing_is_left(self) -> None:
        """No accelerator request, no allocation on a card, no mediated device, no card away from its own driver."""
        admin = self.api("admin", "accelerator")
        wait_until(
            "there is no accelerator request any more", lambda: admin.get("/accelerator_requests").json()["arqs"] == []
        )
        cards = [uuid for name, uuid in self.providers().items() if name not in HOSTS]
        for card in cards:
            answer = self.api("admin", "placement").get(f"/resource_providers/{card}/usages").json()
            assert not any(answer["usages"].values()), answer
        wait_until("no host has a mediated device", lambda: not any(map(self.stack.cantle.mediated_devices, HOSTS)))
        wait_until(
            "each M40 is with its own driver", lambda: all(self._driver_of_m40(host) == "nvidia" for host in HOSTS)
        )
        wait_until(
            "all units are free", lambda: all(row["used"] == 0 for row in self.stack.cantle.rows("admin", "capacity"))
        )

    def api(self, person: str, service: str) -> Adapter:
        """A service as a person finds it in the catalog. Answers come back whatever their status."""
        versions = {"compute": MICROVERSION, "placement": "1.39"}
        return Adapter(
            self.stack.cloud.session(person),
            service_type=service,
            interface="public",
            region_name="RegionOne",
            default_microversion=versions.get(service),
            raise_exc=False,
        )

    def _flavor(self, name: str) -> str:
        flavors = self.api("demo", "compute").get("/flavors").json()["flavors"]
        return str(next(one["id"] for one in flavors if one["name"] == name))

    def _driver_of_m40(self, host: str) -> str:
        return self.stack.cantle.driver(host, M40)

    def _computes(self) -> set[str]:
        answer = self.api("admin", "compute").get("/os-hypervisors")
        assert answer.status_code == 200, answer.text
        return {one["hypervisor_hostname"] for one in answer.json()["hypervisors"] if one["state"] == "up"}

    def _gone(self, uuid: str) -> None:
        compute = self.api("admin", "compute")
        wait_until(
            f"server {uuid} is gone", lambda: compute.get(f"/servers/{uuid}").status_code == 404, seconds=_PATIENCE_S
        )

    @staticmethod
    def _compute(*words: str) -> tuple[str, ...]:
        return ("--os-compute-api-version", MICROVERSION, *words)
