"""Cantle as services of systemd, and what a client does with it."""

from __future__ import annotations

import json
from typing import Any

from tests.kernel.guest.configuration import TEXT
from tests.kernel.systemd.computer import Computer

SERVERS = ("cantle-api.service", "cantle-api-agents.service", "cantle-keeper.service")
AGENT = "cantle-agent.service"
RESTORE = "cantle-restore.service"
UNITS = (*SERVERS, AGENT, RESTORE)

CONFIGURATION = """\
[DEFAULT]
use_json = true

[database]
connection = postgresql://cantle:{password}@127.0.0.1/cantle

[api]
auth = token
""" + TEXT.replace("{", "{{").replace("}", "}}")

PROFILES = {
    "slice": {"resources:VGPU": "1", "trait:CUSTOM_NVIDIA_1EB8_T4_2B": "required"},
    "serial": {"resources:VGPU": "1", "trait:CUSTOM_MDEV_MTTY_DUAL_PORT_SERIAL": "required"},
    "whole": {"resources:PGPU": "1", "trait:CUSTOM_NVIDIA_1EB8": "required"},
}
_MDEVS = "/sys/bus/mdev/devices"


class Cloud:
    """``token``: an administrator's. ``secrets``: what must stand in no log."""

    def __init__(self, computer: Computer, token: str, secrets: list[str]) -> None:
        self.computer = computer
        self.token = token
        self.secrets = secrets

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """A request with an administrator's token."""
        return self.computer.call(method, path, self.token, body)

    def said(self, *argv: str) -> str:
        """What the command prints with the same token."""
        return self.computer.said("env", f"CANTLE_TOKEN={self.token}", "CANTLE_URL=http://127.0.0.1:6666", *argv)

    def token_of_host(self) -> str:
        """What the agent proves itself with."""
        return str(json.loads(self.computer.said("cat", "/var/lib/cantle/agents/joined.json"))["token"])

    def lend(self, profile: str, **wishes: object) -> dict[str, Any]:
        """An active lease."""
        status, lease = self.call("POST", "/v1/leases", {"profile": profile, **wishes})
        assert status == 201, lease
        return self._wait_for(lease, "active")

    def give_back(self, lease: dict[str, Any]) -> dict[str, Any]:
        """Released, and its units taken back."""
        assert self.call("POST", f"/v1/leases/{lease['uuid']}/release")[0] == 202
        return self._wait_for(lease, "released")

    def lease(self, lease: dict[str, Any]) -> dict[str, Any]:
        """A lease as it is now."""
        return dict(self.call("GET", f"/v1/leases/{lease['uuid']}")[1])

    def _wait_for(self, lease: dict[str, Any], state: str) -> dict[str, Any]:
        self.computer.until(lambda: self.lease(lease)["state"] in (state, "failed"), f"the lease is {state}")
        found = self.lease(lease)
        assert found["state"] == state, found
        return found

    def mdevs(self) -> set[str]:
        """Uuids of the mediated devices there are."""
        return set(self.computer.said("ls", _MDEVS).split())


def handles(lease: dict[str, Any]) -> list[str]:
    """Uuids of a lease's attach handles."""
    return [arq["attach_handle_uuid"] for arq in lease["arqs"]]
