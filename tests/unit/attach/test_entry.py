"""Whether a unit of a container is still used by one, on a tree whose card has the number of a device that this machine has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.agent.service import M40

from cantle import simulate
from cantle.attach import entry
from cantle.errors import Conflict, HostError
from cantle.kernel.root import Root


class Host(Root):
    """A tree that counts as a machine: its processes are looked at."""

    @property
    def is_machine(self) -> bool:
        return True


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Its card is /dev/null, which a process of a container has open: this one."""
    made = simulate.build(simulate.load("t4"), tmp_path / "host")
    rewrite(made, "proc/devices", "195 nvidia", "1 nvidia")
    rewrite(made, f"proc/driver/nvidia/gpus/{M40}/information", "1", "3", key="Device Minor")
    fd = os.open(os.devnull, os.O_RDWR)
    process = Path(made.path, f"proc/{os.getpid()}")
    (process / "fd").mkdir(parents=True)
    (process / "fd" / str(fd)).touch()
    (process / "status").write_text(f"Name:\ttrain\nNSpid:\t{os.getpid()}\t7\n")
    (process / "comm").write_text("train\n")
    yield Host(made.path)
    os.close(fd)


def rewrite(root: Root, rel: str, old: str, new: str, *, key: str = "") -> None:
    lines = root.read(rel).split("\n")
    text = "\n".join(line.replace(old, new) if key in line else line for line in lines)
    Path(root.path, rel).unlink()
    Path(root.path, rel).write_text(f"{text}\n")


def test_a_card_that_a_container_has_open_is_used_though_what_it_shares_with_others_has_gone(host: Host) -> None:
    """nvidia-uvm can be unloaded while a program that does not compute has the card: it was lent to the next one then."""
    with pytest.raises(Conflict, match="train") as caught:
        entry.check_unused(host, M40)
    assert caught.value.code == "device-held"
    rewrite(host, "proc/devices", "nvidia-uvm", "unloaded")
    with pytest.raises(Conflict, match="nvidia-uvm is not loaded"):
        entry.nodes(host, M40)
    with pytest.raises(Conflict, match="train") as caught:
        entry.check_unused(host, M40)
    assert caught.value.code == "device-held"


def test_a_card_of_which_the_kernel_says_nothing_is_not_taken_for_unused(host: Host) -> None:
    place = Path(host.path, f"proc/driver/nvidia/gpus/{M40}/information")
    place.unlink()
    place.mkdir()
    with pytest.raises(HostError) as caught:
        entry.check_unused(host, M40)
    assert caught.value.code == "host-read-failed"


def test_a_daemon_of_the_host_uses_a_card_for_nobody(host: Host) -> None:
    """nvidia-persistenced has it open for ever."""
    Path(host.path, f"proc/{os.getpid()}/status").write_text(f"Name:\ttrain\nNSpid:\t{os.getpid()}\n")
    entry.check_unused(host, M40)


def test_a_card_without_nodes_is_used_by_nobody(host: Host) -> None:
    Path(host.path, f"proc/driver/nvidia/gpus/{M40}/information").unlink()
    entry.check_unused(host, M40)
    entry.check_unused(host, f"{M40}/gi1/ci0")
