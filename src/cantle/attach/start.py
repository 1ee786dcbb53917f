"""Starting a guest that does not run, once it has what its lease is to bring it (``start``)."""

from __future__ import annotations

from cantle.attach import incus
from cantle.attach.domain import URI
from cantle.attach.domains import domains
from cantle.errors import BadRequest, HostError
from cantle.kernel import container
from cantle.kernel.root import Root
from cantle.kernel.tools import Ran
from cantle.model.attachment import Attachment, GuestKind

#: Seconds for one call: libvirt answers when the guest's memory is there, all of it.
_CALL = 300.0
#: There while systemd runs the host (sd_booted(3)).
_SYSTEMD = "run/systemd/system"
#: A container is everybody's: below the agent's unit it would have that one's sandbox (no network of its own, no device nodes, half of
#: the file system read-only), and might end with it. ``forking``: this returns when lxc-start does, and with its status.
_OUTSIDE = ("systemd-run", "--quiet", "--collect", "--property=Type=forking", "--property=Delegate=yes", "--")


def start(root: Root, guest: Attachment) -> str | None:
    """Start it, for what that is worth: whether its system comes up is not waited for. What was done as a note; None when it runs already.

    :raises HostError: ``libvirt-refused``, ``container-refused``, ``incus-refused``, ``incus-away``, ``tool-not-run``: it does not run.
    :raises BadRequest: ``guest-kind-unknown``: nobody could be started by that name.
    """
    if guest.kind is GuestKind.INCUS:
        return f"{guest} was started" if incus.start(root, guest.name) else None
    if _runs(root, guest):
        return None
    ran = _begin(root, guest)
    if ran.status or not _runs(root, guest):
        raise HostError(
            "libvirt-refused" if guest.kind is GuestKind.LIBVIRT else "container-refused",
            f"{guest} has its units and could not be started: {ran.words or f'status {ran.status}'}. They are taken out again; lease "
            "without --start to have them stay, and start it yourself",
            guest=str(guest),
        )
    return f"{guest} was started"


def _runs(root: Root, guest: Attachment) -> bool:
    if guest.kind is GuestKind.LIBVIRT:
        return any(one.name == guest.name and one.running for one in domains(root))
    return container.init_pid(root, guest.name) is not None


def _begin(root: Root, guest: Attachment) -> Ran:
    match guest.kind:
        case GuestKind.LIBVIRT:
            return root.run(["virsh", "-q", "-c", URI, "start", guest.name], _CALL)
        case GuestKind.LXC:
            return root.run(
                [*(_OUTSIDE if root.exists(_SYSTEMD) else ()), "lxc-start", "-n", guest.name, "--daemon"], _CALL
            )
        case _:
            raise BadRequest("guest-kind-unknown", f"{guest} is no guest that this agent could start")
