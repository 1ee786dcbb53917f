"""A lease whose end stops its guest, on a real kernel: a real container that has a mediated device open."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.guest import sysfs
from tests.kernel.guest.command import cantle
from tests.kernel.guest.world import World, handles
from tests.real.lxc import MACHINE, Container

from cantle.kernel import container, node
from cantle.kernel.char_device import Node

_CGROUPS = Path("/sys/fs/cgroup")


@pytest.fixture
def box(world: World) -> Iterator[Container]:
    """A running container. The guest has no systemd: cgroup v2 is mounted for it, as distributions have it."""
    if not (_CGROUPS / "cgroup.controllers").exists():
        subprocess.run(["mount", "-t", "cgroup2", "none", str(_CGROUPS)], check=True)
    one = Container(privileged=True)
    try:
        one.start()
        yield one
    finally:
        one.remove()


@contextmanager
def using(box: Container, group: Node) -> Iterator[subprocess.Popen[str]]:
    """A program in the container has the unit open. It does not end by itself, but with the container."""
    program = ["sh", "-c", f"exec 3<>{group.path} && echo open && exec sleep 6000"]
    argv = ["lxc-attach", "-n", box.name, "--clear-env", "--", *program]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


def said(lease: dict[str, Any], action: str) -> list[dict[str, str]]:
    """What the audit log says of an action, each time it was done."""
    return [row["facts"] for row in cantle("audit", "list", "--lease", lease["uuid"]) if row["action"] == action]


def test_at_its_end_a_lease_leaves_its_guest_alone_or_stops_it_as_it_says_and_the_next_tenant_gets_the_unit(
    world: World, box: Container
) -> None:
    lease = world.lend("slice", attach=f"lxc:{box.name}", expires_in=3600, on_expiry="notify")
    (unit,) = handles(lease)
    group, _ = node.of_mdev(MACHINE, unit)
    with using(box, group) as process:
        renew = f"/v1/leases/{lease['uuid']}/renew"
        assert world.server.call("POST", renew, {"expires_in": 1})[0] == 200
        sysfs.until(lambda: world.lease(lease)["expired_at"] is not None, "the lease's owner is told")
        assert container.init_pid(MACHINE, box.name) is not None
        assert process.poll() is None
        assert world.server.call("POST", renew, {"expires_in": 1, "on_expiry": "stop-guest"})[0] == 200
        world.wait_for(lease, "released", 120)
    assert container.init_pid(MACHINE, box.name) is None
    (back,) = said(lease, "unit.returned")
    assert back["done"].startswith(f"lxc:{box.name} was asked to shut down and stopped; ")
    assert back["cleaning"] == "removed"
    assert sysfs.mdevs() == set()
    assert lease["uuid"] not in box.config.read_text()
    world.give_back(world.lend("slice", workload="second"))
