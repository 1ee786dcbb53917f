"""Stopping a guest whose lease has ended and says so (``on_expiry = stop-guest``): asked first, and ended by force when it goes on.

Nothing waits here for long: whoever is asked goes on meanwhile, and is looked at again at the agent's next attempt. Since when it is asked
is in a file below ``/run`` by the clock that runs since boot, so a new agent does not begin anew and no clock that is set back matters.
"""

from __future__ import annotations

import time

from cantle.attach import incus, lxc
from cantle.attach.domain import URI
from cantle.attach.domains import domains
from cantle.errors import Conflict, HostError
from cantle.kernel import container
from cantle.kernel.root import Root
from cantle.kernel.tools import Ran
from cantle.model.attachment import Attachment, GuestKind

#: Which guests are asked to stop, by lease, below the root.
BOOK = "run/cantle/stopping"
#: Seconds: until it is ended by force, that an attempt waits for it, and of one call.
_PATIENCE = 120.0
_WAIT = 5.0
_CALL = 60.0
_MOMENT = 0.25


def stop(root: Root, guest: Attachment, lease: str, unit: str) -> str | None:
    """Stop a guest that runs with a unit of the lease; how that went, None when there was nothing to do. One that runs without the unit is
    somebody's who started it again, and none of ours.

    :raises Conflict: ``guest-stopping``: it was asked and has not stopped yet.
    :raises HostError: ``libvirt-refused``, ``container-refused``, ``tool-not-run``; it may run on.
    """
    place = f"{BOOK}/{lease}"
    since = _since(root, place)
    if not _runs(root, guest, lease, unit):
        root.remove(place)
        return None if since is None else f"{guest} was asked to shut down and stopped"
    if since is None:
        since = time.monotonic()
        root.replace(place, f"{since}\n".encode())  # before it is asked: one that cannot be asked is ended by force too
        _check(guest, "shut down", _ask(root, guest))
    elif time.monotonic() - since >= _PATIENCE:
        _check(guest, "stop", _end(root, guest))
        if _runs(root, guest, lease, unit):
            raise HostError(_refused(guest), f"{guest} was ended by force, and it runs all the same")
        root.remove(place)
        return f"{guest} was ended by force: it was asked to shut down {_PATIENCE:.0f} s before"
    if not _stops(root, guest, lease, unit):
        asked = time.monotonic() - since
        raise Conflict(
            "guest-stopping",
            f"{guest} was asked to shut down {asked:.0f} s ago, as its lease is over, and has not stopped yet; after "
            f"{_PATIENCE:.0f} s it is ended by force",
            guest=str(guest),
            unit=unit,
        )
    root.remove(place)
    return f"{guest} was asked to shut down and stopped"


def _since(root: Root, place: str) -> float | None:
    try:
        return float(root.read_or_none(place) or "")
    except ValueError:  # not asked, or none of our files
        return None


def _runs(root: Root, guest: Attachment, lease: str, unit: str) -> bool:
    """Whether it runs and has what the lease gave it."""
    if guest.kind is GuestKind.LIBVIRT:
        return any(one.name == guest.name and one.running and unit in one.devices for one in domains(root))
    if guest.kind is GuestKind.LXC:
        return root.exists(lxc.book(guest.name, lease)) and container.init_pid(root, guest.name) is not None
    if guest.kind is GuestKind.INCUS:
        return incus.runs(root, guest.name, lease)
    return (
        False  # a name of container engines: whose containers have it nobody knows, so the server refuses to promise it
    )


def _stops(root: Root, guest: Attachment, lease: str, unit: str) -> bool:
    left = _WAIT
    while _runs(root, guest, lease, unit):
        if left <= 0:
            return False
        time.sleep(_MOMENT)
        left -= _MOMENT
    return True


def _ask(root: Root, guest: Attachment) -> Ran:
    if guest.kind is GuestKind.INCUS:
        return Ran(0, _of_incus(root, guest, force=False))  # that it has not stopped yet counts as a failure there
    if guest.kind is GuestKind.LIBVIRT:
        return root.run(["virsh", "-q", "-c", URI, "shutdown", guest.name], _CALL)
    return root.run(["lxc-stop", "-n", guest.name, "--nokill", "--nowait"], _CALL)


def _end(root: Root, guest: Attachment) -> Ran:
    if guest.kind is GuestKind.INCUS:
        words = _of_incus(root, guest, force=True)
        return Ran(int(bool(words)), words)
    if guest.kind is GuestKind.LIBVIRT:
        return root.run(["virsh", "-q", "-c", URI, "destroy", guest.name], _CALL)
    return root.run(["lxc-stop", "-n", guest.name, "--kill"], _CALL)


def _of_incus(root: Root, guest: Attachment, *, force: bool) -> str:
    """What the daemon said against it; "" when it did it."""
    try:
        incus.stop(root, guest.name, int(_WAIT), force=force)
    except HostError as error:
        return error.message
    return ""


def _refused(guest: Attachment) -> str:
    if guest.kind is GuestKind.INCUS:
        return "incus-refused"
    return "libvirt-refused" if guest.kind is GuestKind.LIBVIRT else "container-refused"


def _check(guest: Attachment, what: str, ran: Ran) -> None:
    if ran.status:
        raise HostError(
            _refused(guest),
            f"{guest} could not be told to {what}: {ran.words or f'status {ran.status}'}",
            guest=str(guest),
        )
