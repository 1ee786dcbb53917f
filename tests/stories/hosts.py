"""Reports of hosts for stories: what an agent would send."""

from __future__ import annotations

import hashlib
from typing import Any


def t4(host: str = "h1", *, address: str = "0000:af:00.0", units: int = 2) -> dict[str, Any]:
    """A T4 with ``units`` vGPUs of nvidia-223 (spec S0.9)."""
    bus = address.split(":")[1]
    return _device(
        host,
        address,
        "1eb8",
        "TU104GL [Tesla T4]",
        "mdev",
        "VGPU",
        ["OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_2B"],
        [
            {
                "key": f"nvidia-223_{number}",
                "attach_type": "MDEV",
                "attach_info": {
                    "domain": "0000",
                    "bus": bus,
                    "device": "00",
                    "function": "0",
                    "asked_type": "nvidia-223",
                    "vgpu_mark": f"nvidia-223_{number}",
                },
            }
            for number in range(units)
        ],
    )


def whole(host: str = "h1", *, address: str = "0000:86:00.0") -> dict[str, Any]:
    """A card that is lent whole."""
    handle = {
        "key": address,
        "attach_type": "PCI",
        "attach_info": {"domain": "0000", "bus": address.split(":")[1], "device": "00", "function": "0"},
    }
    return _device(
        host,
        address,
        "20b5",
        "GA100 [A100 PCIe 80GB]",
        "passthrough",
        "PGPU",
        ["OWNER_CYBORG", "CUSTOM_NVIDIA_20B5"],
        [handle],
    )


def choosable(**changes: Any) -> dict[str, Any]:
    """A T4 that says what it could be, and what bringing it there would take."""
    address = "0000:af:00.0"
    unbind = {
        "name": "unbind-driver",
        "target": address,
        "args": {"driver": "nvidia"},
        "reversible": True,
        "disruptive": True,
        "sentence": f"take {address} from nvidia",
    }
    return {
        **t4(),
        "mdev_types": {address: {"nvidia-222": "GRID T4-1B", "nvidia-223": "GRID T4-2B"}},
        "plans": {"passthrough": {"steps": [unbind], "warnings": ["its audio goes with it"]}, "mdev": {}},
        **changes,
    }


def report(*devices: dict[str, Any], start: str = "s1") -> dict[str, Any]:
    """A report of these devices; its digest is that of its content."""
    return {
        "agent_start": start,
        "digest": hashlib.sha256(repr(devices).encode()).hexdigest(),
        "devices": list(devices),
    }


def _device(
    host: str,
    address: str,
    product: str,
    model: str,
    mode: str,
    resource_class: str,
    traits: list[str],
    handles: list[dict[str, Any]],
) -> dict[str, Any]:
    return {
        "address": address,
        "type": "GPU",
        "vendor": "10de",
        "model": model,
        "vendor_id": "10de",
        "product_id": product,
        "mode": mode,
        "health": "ok",
        "capabilities": ["passthrough", "mdev"],
        "std_board_info": {"device_id": product, "class": "3D controller"},
        "deployables": [
            {
                "name": f"{host}_{address}",
                "driver_name": "nvidia",
                "resource_class": resource_class,
                "traits": traits,
                "handles": handles,
                "attributes": {
                    "rc": resource_class,
                    **{f"trait{number}": trait for number, trait in enumerate(traits)},
                },
            }
        ],
    }


#: By the names stories use.
HOSTS: dict[str, dict[str, dict[str, Any]]] = {
    "empty": {},
    "two-cards": {"h1": report(t4(), whole())},
    "four-slices": {"h1": report(t4(units=4))},
    "choosable": {"h1": report(choosable())},
    "two-hosts": {"h1": report(t4(), whole()), "h2": report(t4("h2", units=1))},
}
