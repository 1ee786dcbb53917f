"""Hooks as they are installed, run as libvirt and LXC run them; questions to an agent at its socket."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.unit.agent.service import M40, T4, Service, until

from cantle.attach.hooks import installed
from cantle.engine.lease import create_lease
from cantle.kernel.root import Root
from cantle.model.attachment import Attachment
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.lease import Lease, LeaseState
from cantle.wire.hook import SOCKET

#: Longer than any test may take: a hook that waited would be noticed.
FOR_EVER = 60.0
#: As short as an agent may be waited for.
SHORT = 1.0


def install(root: Root, *, seconds: float = FOR_EVER) -> None:
    """The hooks below the tree; what they say of their own places is right on a host alone, so they are told where they are."""
    for one in installed.hooks(root, seconds=seconds, directory=f"{root.path}/run/cantle"):
        text = one.text.replace(f"/{installed.ASK}", shlex.quote(f"{root.path}/{installed.ASK}"))
        root.replace(one.place, text.encode(), 0o755)


def run(root: Root, hook: str, *words: str, xml: str = "") -> str:
    """What a hook says where its manager keeps it. It must end well, and before `FOR_EVER`."""
    argv = [f"{root.path}/{hook}", *words]
    done = subprocess.run(argv, input=xml, capture_output=True, text=True, check=False, timeout=FOR_EVER / 2)
    kept, other = (done.stdout, done.stderr) if hook == installed.LXC else (done.stderr, done.stdout)
    assert (done.returncode, other) == (0, "")
    return kept


def starts(root: Root, name: str, *devices: str) -> str:
    """libvirt starts a domain."""
    hostdevs = "".join(f"<hostdev><source>{device}</source></hostdev>" for device in devices)
    xml = f"<domain><name>{name}</name><devices>{hostdevs}</devices></domain>"
    return run(root, installed.LIBVIRT, name, "prepare", "begin", "-", xml=xml)


@contextmanager
def connected(root: Root) -> Iterator[socket.socket]:
    """A connection to the agent. An address has room for 107 bytes, so it goes by the directory."""
    place = os.open(Path(root.path, SOCKET).parent, os.O_RDONLY | os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(FOR_EVER / 2)
        connection.connect(f"/proc/self/fd/{place}/{Path(SOCKET).name}")
        os.close(place)
        yield connection


def ask(root: Root, line: bytes) -> Any:
    """The answer to whatever is sent."""
    with connected(root) as connection:
        connection.sendall(line)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            return json.loads(answer.read())


def question(**fields: Any) -> bytes:
    return json.dumps({"event": "starting", "kind": "libvirt", "name": "v1", **fields}).encode() + b"\n"


def lend(service: Service, profile: str = "slice", attach: str | None = None) -> Lease:
    """A lease that is active."""
    until(lambda: {"slice": T4, "card": M40}[profile] in service.free())
    into = Attachment.parse(attach) if attach else None
    found = service.settled(create_lease(service.db, LOCAL_ADMIN, profile_name=profile, attachment=into).uuid)
    assert found.state is LeaseState.ACTIVE, found
    return found


def unit(lease: Lease) -> str:
    found = lease.arqs[0].attach_handle_uuid
    assert found is not None
    return found
