"""Nova's own rules for PCI devices and extra specs, asked by tests: a JSON document of cases on standard input, the answers on standard
output. Runs with the Python of the venv that has Nova; nothing of it is started."""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any

import nova.conf
from nova import exception, objects
from nova.pci import request as pci_request
from nova.pci import stats, whitelist
from nova.scheduler.filters import extra_specs_ops

CONF = nova.conf.CONF
ERROR = "error"


def match(case: dict[str, Any]) -> Any:
    try:
        return bool(extra_specs_ops.match(case["value"], case["text"]))
    except (ValueError, IndexError):
        return ERROR


def aliases(case: dict[str, Any]) -> Any:
    CONF.set_override("alias", case["entries"], group="pci")
    pci_request.get_alias_from_config.cache_clear()
    try:
        found = pci_request.get_alias_from_config()
    except exception.PciInvalidAlias:
        return ERROR
    return {name: [policy, specs] for name, (policy, specs) in found.items()}


def listed(entries: list[str]) -> Any:
    return whitelist.Whitelist(entries)


def whitelisted(case: dict[str, Any]) -> Any:
    try:
        found = listed(case["entries"])
    except exception.NovaException:
        return ERROR
    return [
        next((number for number, spec in enumerate(found.specs) if spec.match(dict(device, capabilities={}))), None)
        for device in case["devices"]
    ]


def made(case: dict[str, Any]) -> Any:
    devices: dict[str, Any] = {}
    for number, one in enumerate(case["devices"]):
        devices[one["address"]] = objects.PciDevice(
            id=number + 1,
            compute_node_id=1,
            address=one["address"],
            vendor_id=one["vendor_id"],
            product_id=one["product_id"],
            dev_type=one["dev_type"],
            numa_node=one["numa_node"],
            parent_addr=one["parent"],
            extra_info={},
            status="available",
            request_id=None,
        )
    for one in devices.values():
        one.child_devices = [other for other in devices.values() if other.parent_addr == one.address]
        one.parent_device = devices.get(one.parent_addr)
    return list(devices.values())


def pools(case: dict[str, Any]) -> Any:
    sockets = case["sockets"]
    topology = objects.NUMATopology(
        cells=[objects.NUMACell(id=int(node), socket=socket) for node, socket in sockets.items()]
    )
    cells = None if case["nodes"] is None else [objects.InstanceNUMACell(id=node) for node in case["nodes"]]
    wanted = [
        objects.InstancePCIRequest(
            count=one["count"], spec=one["specs"], numa_policy=one["policy"], request_id=str(uuid.uuid4())
        )
        for one in case["requests"]
    ]
    there = stats.PciDeviceStats(topology, dev_filter=listed(case["entries"]))
    for device in made(case):
        there.add_device(device)
    supported = there.support_requests(wanted, None, cells)
    try:
        taken: Any = [device.address for device in there.consume_requests(wanted, cells)]
    except exception.PciDeviceRequestFailed:
        taken = None
    except IndexError:  # its counts of pools with physical and virtual functions went wrong
        taken = ERROR
    return {"supported": supported, "taken": taken}


def main() -> None:
    objects.register_all()
    CONF([], project="nova", default_config_files=[])
    ask = {"match": match, "aliases": aliases, "whitelist": whitelisted, "pools": pools}
    cases = json.load(sys.stdin)
    json.dump([ask[case["ask"]](case) for case in cases], sys.stdout)


main()
