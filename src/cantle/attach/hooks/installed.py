"""The hooks as they lie on a host: one program that asks the agent, and a script for each manager of guests that calls it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

from cantle.kernel.root import Root
from cantle.wire import hook

#: Below the host's root.
HOME = "usr/lib/cantle/hooks"
ASK = f"{HOME}/ask.py"
LXC = f"{HOME}/lxc"
#: libvirt runs what is in this directory since 6.5.0 (https://libvirt.org/hooks.html).
LIBVIRT = "etc/libvirt/hooks/qemu.d/cantle"

_SCRIPT = """\
#!/bin/sh
# {what}, installed by "cantle agent hooks install" and taken away by "cantle agent hooks remove". It asks Cantle's agent, waits at most
# {seconds:g} s for it, and lets the guest start in any case: docs/attach.md.
for python in {python} /usr/bin/python3; do
    if [ -x "$python" ] && [ -r {ask} ]; then
        "$python" -I -S {ask} --directory {directory} --seconds {seconds:g} {manager} -- "$@"{words}
        break
    fi
done
exit 0
"""


@dataclass(frozen=True, slots=True)
class Hook:
    """A file. ``place`` is below the root; ``manager`` says whose guests it is for."""

    place: str
    text: str
    manager: str


def hooks(root: Root, *, seconds: float = 10.0, directory: str = "", python: str = "") -> tuple[Hook, ...]:
    """What is installed.

    :param seconds: how long a guest with a lease may be kept waiting.
    :param directory: of the agent's socket, absolute; "" for the usual one.
    :param python: the interpreter, absolute; "" for the one that runs now.
    """
    ask = resources.files(__package__).joinpath("ask.py").read_text()
    socket = directory or root.host_path(hook.SOCKET.rpartition("/")[0])
    # libvirt keeps what a hook says on standard error, liblxc (in its log, at the level DEBUG) what it says on standard output.
    words = {
        "seconds": seconds,
        "directory": shlex.quote(socket),
        "python": shlex.quote(python or sys.executable),
        "ask": root.host_path(ASK),
    }
    return (
        Hook(ASK, ask, "all"),
        Hook(LXC, _SCRIPT.format(what="A hook of LXC containers", manager="lxc", words=" 2>&1", **words), "lxc"),
        Hook(LIBVIRT, _SCRIPT.format(what="A hook of libvirt", manager="libvirt", words="", **words), "libvirt"),
    )


def install(root: Root, found: Iterable[Hook]) -> list[str]:
    """Write those that are not there as they shall be. Their places.

    :raises HostError: ``host-write-failed``.
    """
    written = []
    for one in found:
        if root.read_or_none(one.place) != one.text.removesuffix("\n"):
            root.replace(one.place, one.text.encode(), 0o755)
            written.append(one.place)
    return written


def remove(root: Root) -> list[str]:
    """Take them away; from containers' configurations first, which do not start without. Their places.

    :raises HostError: ``host-write-failed``, ``host-read-failed``.
    """
    gone = [place for place in (LXC, LIBVIRT, ASK) if root.exists(place)]
    for place in gone:
        root.remove(place)
    return gone


def lines(root: Root, name: str, lease: str, numbers: Iterable[str]) -> list[str]:
    """A container's configuration of a lease: whom to ask before each start, and to tell after each end. None where no hooks are.

    :param name: of the container: letters, digits, ``_``, ``.`` and ``-``, as an attachment's.
    """
    if not root.exists(LXC):
        return []
    script = root.host_path(LXC)
    return [
        f"lxc.hook.pre-start = {script} starting {name} {lease} {','.join(numbers)}",
        f"lxc.hook.post-stop = {script} ended {name} {lease}",
    ]
