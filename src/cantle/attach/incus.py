"""Containers of Incus, or of LXD: device nodes through the daemon's own API (linuxcontainers.org/incus/docs/main/rest-api).

The daemon keeps a container's devices for good and applies them at once where it runs. A node is a ``unix-char`` device whose ``source`` is
the host's node: the daemon looks its major and minor up at each start, so no number is kept. Ours are told by their names, which have the
lease's uuid. The instance is written whole, since a device can be taken away in no other way, and only if it is still as it was read
(``If-Match``).
"""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from cantle.errors import Conflict, HostError, NotFound
from cantle.kernel.char_device import Node
from cantle.kernel.root import Root
from cantle.kernel.undo import Undo
from cantle.kernel.unix_http import UnixHTTPConnection

#: Where the daemons listen, below the root: Incus, LXD, LXD as a snap.
SOCKETS = ("var/lib/incus/unix.socket", "var/lib/lxd/unix.socket", "var/snap/lxd/common/lxd/unix.socket")

#: Seconds: of one answer, and for what the daemon does in the background.
_ANSWER = 5.0
_BACKGROUND = 60
#: Tries where somebody else changes the instance meanwhile.
_TRIES = 5
#: How the daemon puts it that it is starting or stopping the instance, as after a start that failed; seconds to wait for that, and between
#: two tries. It gives up itself after 30.
_BUSY = "is busy running a"
_PATIENCE = 35.0
_MOMENT = 0.5
#: ``s`` marks a node that cards share.
_OURS = re.compile(r"cantle-([0-9a-f-]{36})-(s?)[0-9]+")
#: What of an instance is written (the API's InstancePut); the rest is its state.
_WRITABLE = ("architecture", "config", "description", "devices", "ephemeral", "profiles", "stateful")

Devices = dict[str, dict[str, str]]


class _NotContainer(Conflict):
    """A virtual machine: it takes no nodes, so it never has any."""


class _Said(msgspec.Struct):
    """An answer, of any of the three types."""

    type: str = ""
    metadata: Any = None
    operation: str = ""
    error: str = ""


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

    if not _is_installed(root):
        return
    try:
        changed = _change(root, name, change)
    except (NotFound, _NotContainer):
        return
    if changed:
        undo.push(f"write the devices of incus:{name} as they were", partial(_put_back, root, name, lease, before))


def runs(root: Root, name: str, lease: str) -> bool:
    """Whether the container runs and has something by the lease. :raises HostError: as of :func:`enter`."""
    if not _is_installed(root):
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
    _call(root, "PUT", f"{_place(name)}/state", {"action": "stop", "timeout": seconds, "force": force})


def start(root: Root, name: str) -> bool:
    """Start a container that does not run. Whether it did not.

    :raises NotFound: ``guest-not-found``.
    :raises HostError: ``incus-refused``, ``incus-away``.
    """
    _, _, instance = _read(root, name)
    if _is_up(instance):
        return False
    _call(root, "PUT", f"{_place(name)}/state", {"action": "start", "timeout": _BACKGROUND})
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
        if _call(root, "PUT", _place(name), body, etag) is not None:
            return True
    raise Conflict(
        "guest-changes",
        f"somebody else changes incus:{name} again and again, so its devices cannot be written; it is tried again",
        guest=f"incus:{name}",
    )


def _read(root: Root, name: str) -> tuple[Devices, str, Mapping[str, Any]]:
    """A container's own devices, its ETag, and all of it."""
    said = _call(root, "GET", _place(name))
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


def _is_installed(root: Root) -> bool:
    """Whether a daemon keeps its files here, running or not: one that is stopped still has what it was given."""
    return any(root.exists(one.rpartition("/")[0]) for one in SOCKETS)


def _place(name: str) -> str:
    return f"/1.0/instances/{quote(name, safe='')}"


def _call(root: Root, method: str, path: str, body: object = None, etag: str = "") -> tuple[Any, str] | None:
    """As :func:`_call_once`, once the daemon is done with what it does to the instance by itself."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return _call_once(root, method, path, body, etag)
        except HostError as error:
            if _BUSY not in error.message or time.monotonic() >= end:
                raise
        time.sleep(_MOMENT)


def _call_once(root: Root, method: str, path: str, body: object, etag: str) -> tuple[Any, str] | None:
    """What the daemon answers, and its ETag; of what it does in the background, once that is done. None: it is not as it was read now.

    :raises NotFound: ``guest-not-found``.
    :raises HostError: ``incus-away``, ``incus-refused``.
    """
    socket = next((one for one in SOCKETS if root.exists(one)), None)
    if socket is None:
        raise HostError(
            "incus-away", f"neither Incus nor LXD is on this host: there is no {root.host_path(SOCKETS[0])}"
        )
    connection = UnixHTTPConnection(root, socket, _ANSWER if method == "GET" else _BACKGROUND + _ANSWER)
    try:
        status, found, said = _exchange(connection, method, path, body, etag)
        if said.type == "async" and status < http.client.BAD_REQUEST:
            waiting = f"{said.operation}/wait?{urlencode({'timeout': _BACKGROUND})}"
            status, _, said = _exchange(connection, "GET", waiting)
            if status == http.client.NOT_FOUND:
                raise HostError(
                    "incus-refused", f"Incus does not know any more what came of it: {method} {path}; it is tried again"
                )
            _check_background(method, path, said.metadata)
    except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
        raise HostError("incus-away", f"{root.host_path(socket)} does not answer as Incus does: {error}") from error
    finally:
        connection.close()
    if status == http.client.PRECONDITION_FAILED:
        return None
    if status == http.client.NOT_FOUND:
        name = path.split("/")[3]
        raise NotFound(
            "guest-not-found",
            f"Incus has no container {name} on this host: 'incus list' names those it has",
            guest=f"incus:{name}",
        )
    if status >= http.client.BAD_REQUEST:
        raise HostError("incus-refused", f"Incus refused {method} {path}: {said.error or status}")
    return said.metadata, found


def _exchange(
    connection: UnixHTTPConnection, method: str, path: str, body: object = None, etag: str = ""
) -> tuple[int, str, _Said]:
    """Status, ETag and body."""
    headers = {"Content-Type": "application/json", **({"If-Match": etag} if etag else {})}
    connection.request(method, path, None if body is None else msgspec.json.encode(body), headers)
    answer = connection.getresponse()
    data = answer.read()
    return answer.status, answer.headers.get("ETag", ""), msgspec.json.decode(data, type=_Said)


def _check_background(method: str, path: str, operation: object) -> None:
    """:raises HostError: ``incus-refused``: the operation failed, or goes on."""
    told = operation if isinstance(operation, dict) else {}
    if told.get("status_code") != http.client.OK:
        why = told.get("err") or told.get("status") or "it goes on"
        raise HostError("incus-refused", f"Incus could not finish {method} {path}: {why}")
