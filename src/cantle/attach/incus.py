"""Containers of Incus, or of LXD: device nodes through the daemon's own API (:mod:`cantle.attach.incus_api`).

The daemon keeps a container's devices for good and applies them at once where it runs. A node is a ``unix-char`` device whose ``source`` is
the host's node: the daemon looks its major and minor up at each start, so no number is kept. Ours are told by their names, which have the
lease's uuid. The instance is written whole, since a device can be taken away in no other way, and only if it is still as it was read
(``If-Match``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from cantle.attach.incus_api import BACKGROUND, call, is_installed
from cantle.errors import Conflict, HostError, NotFound
from cantle.kernel.char_device import Node
from cantle.kernel.root import Root
from cantle.kernel.undo import Undo

#: Tries where somebody else changes the instance meanwhile.
_TRIES = 5
#: ``s`` marks a node that cards share.
_OURS = re.compile(r"cantle-([0-9a-f-]{36})-(s?)[0-9]+")
#: What of an instance is written (the API's InstancePut); the rest is its state.
_WRITABLE = ("architecture", "config", "description", "devices", "ephemeral", "profiles", "stateful")

Devices = dict[str, dict[str, str]]


class _NotContainer(Conflict):
    """A virtual machine: it takes no nodes, so it never has any."""


def stands(root: Root, name: str, lease: str, nodes: Iterable[Node]) -> bool:
    """Whether the container has these nodes by the lease, or by another lease of the same container.

    :raises CantleError: as of :func:`enter`.
    """
    devices, _, _ = _read(root, name)
    return _with(devices, lease, nodes) == devices


def enter(root: Root, name: str, lease: str, nodes: Sequence[Node], undo: Undo) -> None:
    """Give nodes to a container, for good and at once.

    :raises NotFound: ``guest-not-found``.
    :raises Conflict: ``guest-not-container``; ``guest-changes``: somebody else changes it again and again.
    :raises HostError: ``incus-away``, ``incus-refused``; what was done is on the stack.
    """
    before: Devices = {}

    def change(devices: Devices) -> Devices:
        before.clear()
        before.update(_of(devices, lease))
        return _with(devices, lease, nodes)

    if _change(root, name, change):
        undo.push(f"write the devices of incus:{name} as they were", partial(_put_back, root, name, lease, before))


def leave(root: Root, name: str, lease: str, undo: Undo) -> None:
    """Take from a container what the lease gave it, but for what another lease needs too. One that is gone has nothing, nor has a
    virtual machine, or a host on which no daemon was ever installed.

    :raises Conflict: ``guest-changes``.
    :raises HostError: ``incus-away``, ``incus-refused``.
    """
    before: Devices = {}

    def change(devices: Devices) -> Devices:
        before.clear()
        before.update(_of(devices, lease))
        return _without(devices, lease)

    if not is_installed(root):
        return
    try:
        changed = _change(root, name, change)
    except (NotFound, _NotContainer):
        return
    if changed:
        undo.push(f"write the devices of incus:{name} as they were", partial(_put_back, root, name, lease, before))


def runs(root: Root, name: str, lease: str) -> bool:
    """Whether the container runs and has something by the lease. :raises HostError: as of :func:`enter`."""
    if not is_installed(root):
        return False
    try:
        devices, _, instance = _read(root, name)
    except (NotFound, _NotContainer):
        return False
    return _is_up(instance) and bool(_of(devices, lease))


def stop(root: Root, name: str, seconds: int, *, force: bool) -> None:
    """Tell a container to shut down, or end it.

    :raises NotFound: ``guest-not-found``.
    :raises HostError: ``incus-refused`` also where it has not stopped after so many seconds; ``incus-away``.
    """
    call(root, "PUT", f"{_place(name)}/state", {"action": "stop", "timeout": seconds, "force": force})


def start(root: Root, name: str) -> bool:
    """Start a container that does not run. Whether it did not.

    :raises NotFound: ``guest-not-found``.
    :raises HostError: ``incus-refused``, ``incus-away``.
    """
    _, _, instance = _read(root, name)
    if _is_up(instance):
        return False
    call(root, "PUT", f"{_place(name)}/state", {"action": "start", "timeout": BACKGROUND})
    return True


def _is_up(instance: Mapping[str, Any]) -> bool:
    """Whether it runs, paused (``Frozen``) or not. ``Error`` is said of one whose state the daemon cannot find out."""
    return instance.get("status") not in ("Stopped", "Error")


def _of(devices: Devices, lease: str) -> Devices:
    """Those of a lease."""
    return {name: one for name, one in devices.items() if (match := _OURS.fullmatch(name)) and match[1] == lease}


def _with(devices: Devices, lease: str, nodes: Iterable[Node]) -> Devices:
    """The devices with the lease's nodes in it. What another lease of ours gives is there already: one path is given once."""
    others = {name: one for name, one in devices.items() if name not in _of(devices, lease)}
    given = {one.get("path") for name, one in others.items() if _OURS.fullmatch(name)}
    ours = {
        f"cantle-{lease}-{'s' if node.shared else ''}{number}": {
            "type": "unix-char",
            "source": node.path,
            "path": node.path,
            "mode": "0666",
        }
        for number, node in enumerate(sorted(set(nodes)))
        if not (node.shared and node.path in given)
    }
    return others | ours


def _without(devices: Devices, lease: str) -> Devices:
    """The devices without the lease's. What it shares with another lease goes by that one's name from now on."""
    ours = _of(devices, lease)
    kept = {name: one for name, one in devices.items() if name not in ours}
    heirs = sorted({match[1] for name in kept if (match := _OURS.fullmatch(name))})
    if heirs:
        shared = [one for name, one in ours.items() if name.rpartition("-")[2].startswith("s")]
        kept |= {f"cantle-{heirs[0]}-s{1000 + number}": one for number, one in enumerate(shared)}
    return kept


def _put_back(root: Root, name: str, lease: str, before: Devices) -> None:
    """What the lease gave earlier, and nothing else of it."""

    def change(devices: Devices) -> Devices:
        return {one: what for one, what in devices.items() if one not in _of(devices, lease)} | before

    try:
        _change(root, name, change)
    except NotFound:
        return


def _change(root: Root, name: str, change: Callable[[Devices], Devices]) -> bool:
    """Whether anything had to be changed."""
    for _ in range(_TRIES):
        devices, etag, instance = _read(root, name)
        wanted = change(dict(devices))
        if wanted == devices:
            return False
        body = {key: instance[key] for key in _WRITABLE if key in instance} | {"devices": wanted}
        if call(root, "PUT", _place(name), body, etag) is not None:
            return True
    raise Conflict(
        "guest-changes",
        f"somebody else changes incus:{name} again and again, so its devices cannot be written; it is tried again",
        guest=f"incus:{name}",
    )


def _read(root: Root, name: str) -> tuple[Devices, str, Mapping[str, Any]]:
    """A container's own devices, its ETag, and all of it."""
    said = call(root, "GET", _place(name))
    assert said is not None  # noqa: S101 - only a condition is answered so
    instance, etag = said
    if not isinstance(instance, dict):
        raise HostError("incus-refused", f"the daemon says nothing of {name} that could be understood")
    if instance.get("type", "container") != "container":
        raise _NotContainer(
            "guest-not-container",
            f"{name} is a virtual machine of Incus, and device nodes are for containers",
            guest=f"incus:{name}",
        )
    return instance.get("devices") or {}, etag, instance


def _place(name: str) -> str:
    return f"/1.0/instances/{quote(name, safe='')}"
