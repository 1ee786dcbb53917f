"""Servers of the tenant ``demo``, made and watched with the ``openstack`` command and openstacksdk; and what they leave."""

from __future__ import annotations

from typing import Any

from keystoneauth1.adapter import Adapter
from tests.openstack.nova import MICROVERSION
from tests.openstack.stack import HOSTS, Stack
from tests.real.openstack_cli import OpenStackCli
from tests.real.processes import wait_until

#: Flavor: (device profile, its groups). A slice of a T4, a whole M40, and two slices for one server.
FLAVORS = {
    "slice": ("slice-of-t4", [{"resources:VGPU": "1", "trait:CUSTOM_NVIDIA_1EB8_T4_2B": "required"}]),
    "whole": ("whole-m40", [{"resources:PGPU": "1"}]),
    "slices": (
        "two-slices",
        [{"resources:VGPU": "1", "trait:CUSTOM_NVIDIA_1EB8_T4_2B": "required"}] * 2,
    ),
}

T4, M40 = "0000:af:00.0", "0000:86:00.0"

#: What Nova may take for one action. It is never long; the machine may be busy.
_PATIENCE_S = 90.0


class Servers:
    """Servers by name. Everything is asked of the real services."""

    def __init__(self, stack: Stack, openstack: OpenStackCli) -> None:
        self.stack, self.openstack = stack, openstack
        self._image = ""

    def prepare(self) -> None:
        """Wait for both computes and all four cards in Placement; make an image, device profiles and flavors as docs/openstack.md does."""
        wait_until("both computes are up", lambda: self._computes() == set(HOSTS), seconds=180)
        cards = {f"{host}_{address}" for host in HOSTS for address in (T4, M40)}
        wait_until("all cards are published", lambda: cards <= set(self.providers()), seconds=120)
        image = {"name": "tiny", "disk_format": "raw", "container_format": "bare", "visibility": "public"}
        self._image = self.api("admin", "image").post("/v2/images", json=image).json()["id"]
        data = {"Content-Type": "application/octet-stream"}
        self.api("admin", "image").put(f"/v2/images/{self._image}/file", data=b"\0" * 4096, headers=data)
        for flavor, (profile, groups) in FLAVORS.items():
            words = [f"{{{', '.join(f'{key!r}: {value!r}' for key, value in group.items())}}}" for group in groups]
            self.openstack.text(
                "admin",
                "accelerator",
                "device",
                "profile",
                "create",
                profile,
                f"[{', '.join(words)}]".replace("'", '"'),
            )
            size = ("--ram", "64", "--disk", "1", "--vcpus", "1")
            self.openstack.text(
                "admin", "flavor", "create", *size, "--property", f"accel:device_profile={profile}", flavor
            )

    def create(self, name: str, flavor: str) -> str:
        """Ask for a server, with the ``openstack`` command; its uuid."""
        words = ("--flavor", flavor, "--image", self._image, "--no-network", name)
        made: str = self.openstack.json("demo", *self._compute("server", "create"), *words)["id"]
        return made

    def boot(self, name: str, flavor: str) -> str:
        """A server that has to become ACTIVE."""
        uuid = self.create(name, flavor)
        self.wait_for(uuid, "ACTIVE")
        return uuid

    def wait_for(self, uuid: str, *wanted: str, seconds: float = _PATIENCE_S) -> dict[str, Any]:
        """The server, as soon as it is in one of these states and nothing is under way with it."""
        seen: dict[str, Any] = {}

        def there() -> bool:
            seen.update(self.show(uuid))
            return seen["OS-EXT-STS:task_state"] is None and seen["status"] in (*wanted, "ERROR")

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
        answer = self.api(person, "compute").post(f"/servers/{uuid}/action", json={action: body})
        assert answer.status_code < 300, f"{action}: {answer.text}"

    def delete(self, uuid: str) -> None:
        """Delete a server, until Nova does not know it any more."""
        self.openstack.text("demo", *self._compute("server", "delete"), uuid)
        self._gone(uuid)

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
