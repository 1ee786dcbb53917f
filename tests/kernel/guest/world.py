"""A server on the guest's real root with its state, which outlives it; and the main jobs of a client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.kernel.guest import sysfs
from tests.kernel.guest.server import Server


class World:
    """Starts a server on creation. ``server`` is the one that runs now, if any does."""

    def __init__(self, state_dir: Path, config: str) -> None:
        self._state_dir = state_dir
        self._config = config
        self.server = Server(state_dir, config)

    def restart(self) -> None:
        """Starts a new server on the state of the one that has ended."""
        self.server = Server(self._state_dir, self._config)

    def capacity(self) -> dict[str, dict[str, Any]]:
        """What can be lent, by the device's address."""
        status, answer = self.server.call("GET", "/v1/capacity")
        assert status == 200
        return {row["device_address"]: row for row in answer["capacity"]}

    def numbers(self, at: str) -> tuple[int, int, int]:
        """Total, used and free of a device."""
        row = self.capacity()[at]
        return row["total"], row["used"], row["free"]

    def device(self, at: str) -> dict[str, Any]:
        """A device of this host, with its intent."""
        status, found = self.server.call("GET", f"/v1/hosts/labguest/devices/{at}")
        assert status == 200
        return dict(found)

    def lease(self, lease: dict[str, Any]) -> dict[str, Any]:
        """A lease as it is now."""
        status, found = self.server.call("GET", f"/v1/leases/{lease['uuid']}")
        assert status == 200
        return dict(found)

    def profile(self, name: str, group: dict[str, str]) -> None:
        """Makes a device profile of one group."""
        assert self.server.call("POST", "/v2/device_profiles", [{"name": name, "groups": [group]}])[0] == 201

    def lend(self, profile: str, **wishes: object) -> dict[str, Any]:
        """An active lease. ``wishes`` are fields of the body, such as ``count``."""
        status, lease = self.server.call("POST", "/v1/leases", {"profile": profile, **wishes})
        assert status == 201
        return self.wait_for(lease, "active")

    def release(self, lease: dict[str, Any]) -> None:
        """Asks for a lease's release; its units are taken back later."""
        assert self.server.call("POST", f"/v1/leases/{lease['uuid']}/release")[0] == 202

    def give_back(self, lease: dict[str, Any]) -> None:
        """Releases a lease; returns when the host has taken everything back."""
        self.release(lease)
        self.wait_for(lease, "released")

    def give_back_all(self) -> None:
        """Releases every lease there is, whatever state it is in; returns when nothing is lent any more."""
        status, answer = self.server.call("GET", "/v1/leases")
        assert status == 200
        for lease in answer["leases"]:
            self.release(lease)
        for lease in answer["leases"]:
            self.wait_for(lease, "released")

    def wait_for(self, lease: dict[str, Any], state: str, seconds: float = 60.0) -> dict[str, Any]:
        """The lease once it is in this state. Fails when it is not within ``seconds``."""
        sysfs.until(lambda: self.lease(lease)["state"] == state, f"lease {lease['uuid']} is {state}", seconds)
        return self.lease(lease)


def handles(lease: dict[str, Any]) -> list[str]:
    """Uuids of a lease's attach handles."""
    return [arq["attach_handle_uuid"] for arq in lease["arqs"]]
