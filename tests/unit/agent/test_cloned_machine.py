"""Two machines with one id and one token: a disk image was copied while its agent ran, and both are up."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest
from tests.unit.agent.service import T4, Service, running, until
from tests.unit.agent.test_end_to_end import handle

from cantle import simulate
from cantle.engine.host import confirm, get_host
from cantle.engine.lease import create_lease, get_lease
from cantle.errors import CantleError
from cantle.kernel import mdev
from cantle.model.host import HostState
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.lease import LeaseState


def identity(root: simulate.SimulatedRoot) -> None:
    """The machine has an id, which a copy has too, and the kernel one of this boot, which no other has."""
    files = {"etc/machine-id": "0123456789abcdef0123456789abcdef", "proc/sys/kernel/random/boot_id": str(uuid.uuid4())}
    for name, text in files.items():
        path = Path(root.path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def test_the_host_is_frozen_at_once_until_the_copy_is_stopped_and_a_person_has_looked(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    identity(t4)
    copied = simulate.build(simulate.load("t4"), tmp_path / "copied")
    identity(copied)
    with running(service, t4, tmp_path / "agent"):
        lease = service.borrow("slice")
        until(lambda: service.free()[T4] == 7)
        shutil.copytree(tmp_path / "agent", tmp_path / "copied-agent")
        with running(service, copied, tmp_path / "copied-agent"):
            # Neither has anything to report: they take turns to wait in one place.
            until(lambda: get_host(service.db, "node1").state is HostState.FROZEN)
            said = {one.code: one.message for one in get_host(service.db, "node1").conditions}
            assert "Stop the copy and give it an id of its own" in said["machine-cloned"]
            with pytest.raises(CantleError):
                create_lease(service.db, LOCAL_ADMIN, profile_name="slice")
        confirm(service.db, LOCAL_ADMIN, "node1")
        until(lambda: get_host(service.db, "node1").state is HostState.UP)
        assert service.borrow("slice").state is LeaseState.ACTIVE
    assert get_lease(service.db, LOCAL_ADMIN, lease.uuid).state is LeaseState.ACTIVE
    assert handle(lease) in {one.uuid for one in mdev.devices(t4)}
