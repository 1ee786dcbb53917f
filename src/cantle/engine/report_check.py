"""Whether what a host says of one device can be kept. What cannot is left out with a reason; it spoils nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cantle.model import uuids
from cantle.model.attach_handle import AttachType
from cantle.wire.inventory import DeployableReport, DeviceReport, HandleReport

_ID = re.compile(r"(?:[0-9a-f]{4})?")
_PLACEMENT_NAME = re.compile(r"[A-Z0-9_]{1,255}")
#: Memory nodes that Linux can have (MAX_NUMNODES), and a bound of all numbers of nodes and sockets.
_MOST_NODES = 1024
_MOST = 1 << 31
_WHOLE = (AttachType.PCI, AttachType.NODES)
_PCI_KEYS = ("domain", "bus", "device", "function")


def unusable(devices: Sequence[DeviceReport]) -> dict[int, str]:
    """By position in the report, why that device's part of it cannot be kept."""
    found: dict[int, str] = {}
    addresses: set[str] = set()
    names: set[str] = set()
    adopted: set[str] = set()
    for position, device in enumerate(devices):
        reason = _device(device) or _repeated(device, addresses, names, adopted)
        if reason is not None:
            found[position] = reason
            continue
        addresses.add(device.address)
        names.update(deployable.name for deployable in device.deployables)
        adopted.update(handle.uuid for deployable in device.deployables for handle in deployable.handles if handle.uuid)
    return found


def sockets(told: Mapping[int, int | None]) -> dict[int, int | None] | None:
    """The sockets of a report in the order of their nodes; None where none are told, or where they cannot be kept."""
    sound = len(told) <= _MOST_NODES and all(0 <= number < _MOST for number in (*told, *filter(None, told.values())))
    return dict(sorted(told.items())) if told and sound else None


def _repeated(device: DeviceReport, addresses: set[str], names: set[str], adopted: set[str]) -> str | None:
    if device.address in addresses:
        return f"the report has {device.address} twice"
    for deployable in device.deployables:
        if deployable.name in names:
            return f"the report has a deployable {deployable.name} twice"
        for handle in deployable.handles:
            if handle.uuid in adopted:
                return f"the report has a unit {handle.uuid} twice"
    return None


def _device(device: DeviceReport) -> str | None:
    for name, text in (("address", device.address), ("vendor", device.vendor), ("model", device.model)):
        if len(text) > 255 or (name == "address" and not text):
            return f"its {name} is empty or longer than 255 characters"
    for name, text in (("vendor_id", device.vendor_id), ("product_id", device.product_id)):
        if _ID.fullmatch(text) is None:
            return f"its {name} is {text!r}, not four lower-case hex digits"
    told = (device.reason, device.intent_error, device.intent_code)
    if any("\0" in text for text in (device.address, device.vendor, device.model, *filter(None, told))):
        return "a text of it holds a NUL character"
    if device.intent_version < 0 or device.intent_tried < 0 or len(device.intent_code or "") > 64:
        return "its intent's version or code is out of range"
    return _labels(device) or _deployables(device) or _whole_and_parts(device)


def _whole_and_parts(device: DeviceReport) -> str | None:
    """A unit with the card's address for its key is the whole card: beside it there is nothing to lend."""
    handles = [handle for deployable in device.deployables for handle in deployable.handles]
    whole = any(handle.key == device.address and handle.attach_type in _WHOLE for handle in handles)
    return "it offers the card whole and parts of it at once" if whole and len(handles) > 1 else None


def _deployables(device: DeviceReport) -> str | None:
    names = [deployable.name for deployable in device.deployables]
    if len(set(names)) < len(names):
        return "two of its deployables have one name"
    return next((reason for deployable in device.deployables if (reason := _deployable(deployable)) is not None), None)


def _labels(device: DeviceReport) -> str | None:
    for key, value in device.labels.items():
        if not 1 <= len(key) <= 255 or len(value) > 1000 or "\0" in key + value:
            return f"its label {key[:40]!r} is empty, too long, or holds a NUL character"
    return None


def _deployable(deployable: DeployableReport) -> str | None:
    if not 1 <= len(deployable.name) <= 255 or len(deployable.driver_name) > 100:
        return f"the name of deployable {deployable.name[:40]!r} or of its driver is empty or too long"
    texts = (deployable.name, deployable.driver_name, *deployable.attributes, *deployable.attributes.values())
    if any("\0" in text for text in texts) or not all(1 <= len(key) <= 255 for key in deployable.attributes):
        return f"a text of {deployable.name!r} holds a NUL character, or the key of an attribute is empty or longer than 255 characters"
    if _PLACEMENT_NAME.fullmatch(deployable.resource_class) is None:
        return f"{deployable.resource_class!r} is no resource class"
    for trait in deployable.traits:
        if _PLACEMENT_NAME.fullmatch(trait) is None:
            return f"{trait!r} is no trait"
    keys = [handle.key for handle in deployable.handles]
    if len(set(keys)) < len(keys):
        return f"two units of {deployable.name} have one key"
    return next((reason for handle in deployable.handles if (reason := _handle(handle)) is not None), None)


def _handle(handle: HandleReport) -> str | None:
    if not 1 <= len(handle.key) <= 255 or "\0" in handle.key:
        return "the key of a unit is empty, longer than 255 characters, or holds a NUL"
    if handle.uuid is not None and uuids.canonical(handle.uuid) != handle.uuid:
        return f"the uuid {handle.uuid!r} of unit {handle.key} is none, or not in lower case with hyphens"
    if handle.attach_type == AttachType.MDEV and not handle.attach_info.get("asked_type"):
        return f"unit {handle.key} says no asked_type"
    needed = () if "parent" in handle.attach_info and handle.attach_type == AttachType.MDEV else _PCI_KEYS
    missing = [key for key in needed if key not in handle.attach_info]
    return f"unit {handle.key} says no {', '.join(missing)}" if missing else None
