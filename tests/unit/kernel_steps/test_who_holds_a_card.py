"""Who has a card's nodes open: found on this machine's own /proc, and told apart from not being able to look."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.kernel_steps.pci_bus import PLACE, PciBus

from cantle.errors import Conflict, HostError
from cantle.kernel import holders
from cantle.kernel.root import Root
from cantle.model.pci import PciAddress

CARD = PciAddress.parse("0000:01:00.0")


def test_a_real_process_is_found_with_its_pid_command_and_node() -> None:
    code = "import sys; file = open('/dev/full'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"open\n"
        command = Path(f"/proc/{child.pid}/comm").read_text().strip()
        found = holders.holders(Root(), ["/dev/full"])
        assert holders.Holder(child.pid, command, "/dev/full") in found.holders
        child.communicate()
    assert child.pid not in {one.pid for one in holders.holders(Root(), ["/dev/full"]).holders}


def test_our_own_process_counts_too() -> None:
    with Path("/dev/full").open("rb"):
        assert os.getpid() in {one.pid for one in holders.holders(Root(), ["/dev/full"]).holders}


def test_the_nodes_of_a_card_come_from_what_its_driver_shows(host: PciBus) -> None:
    host.put("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t Tesla T4\nDevice Minor: \t 3\n")
    for name in ("card1", "renderD129", "version"):
        host.put(f"{PLACE}/0000:01:00.0/drm/{name}/dev", "226:1\n")
    for name in ("controlC2", "pcmC2D3p", "hwC2D0", "power", "id"):
        host.put(f"{PLACE}/0000:01:00.0/sound/card2/{name}/dev", "116:2\n")
    host.put(f"{PLACE}/0000:01:00.0/vfio-dev/vfio7/dev", "511:7\n")
    assert holders.nodes(host, CARD) == [
        "/dev/nvidia3",
        "/dev/dri/card1",
        "/dev/dri/renderD129",
        "/dev/snd/controlC2",
        "/dev/snd/hwC2D0",
        "/dev/snd/pcmC2D3p",
        "/dev/vfio/1",
        "/dev/vfio/noiommu-1",
        "/dev/vfio/devices/vfio7",
    ]


def test_a_disk_s_nodes_are_its_controller_and_all_its_partitions(host: PciBus) -> None:
    for name in ("nvme0n1", "nvme0n1p1"):
        host.link_to(f"sys/class/block/{name}", f"../../devices/pci0000:00/0000:03:00.0/nvme/nvme0/{name}")
    host.put(f"{PLACE}/0000:03:00.0/nvme/nvme0/dev", "241:0\n")
    assert holders.nodes(host, PciAddress.parse("03:00.0"))[:3] == ["/dev/nvme0", "/dev/nvme0n1", "/dev/nvme0n1p1"]


def test_holders_are_named_once_each_and_a_removed_node_still_counts(host: PciBus) -> None:
    for target in ("/dev/vfio/1", "/dev/vfio/1", "/dev/dri/card0 (deleted)", "/dev/null", "socket:[4]"):
        host.open_file(31, "qemu-system-x86", target)
    host.open_file(40, "Xorg", "/dev/dri/card9")
    assert holders.holders(host, ["/dev/vfio/1", "/dev/dri/card0"]) == holders.Held(
        (holders.Holder(31, "qemu-system-x86", "/dev/dri/card0"), holders.Holder(31, "qemu-system-x86", "/dev/vfio/1"))
    )


def test_nobody_holds_an_idle_card(host: PciBus) -> None:
    host.open_file(31, "sshd", "/dev/null")
    holders.check_free(host, [CARD])
    holders.check_free(host, [])


class Secretive(PciBus):
    """A host on which the open files of some processes may not be read, or vanish while they are."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.answers: dict[str, int] = {}

    def names(self, rel: str) -> list[str]:
        code = self.answers.get(rel)
        if code is not None:
            raise HostError("host-read-failed", f"cannot read /{rel}", path=f"/{rel}", errno=code)
        return super().names(rel)


@pytest.fixture
def secretive(tmp_path: Path) -> Secretive:
    host = Secretive(tmp_path)
    host.function("0000:01:00.0", "030000", "10de:1e04", group=1)
    for pid, command in ((31, "sshd"), (32, "Xorg"), (33, "bash")):
        host.open_file(pid, command, "/dev/null")
    return host


def test_not_being_allowed_to_look_is_not_the_same_as_nobody(secretive: Secretive) -> None:
    secretive.answers = {"proc/32/fd": errno.EACCES, "proc/33/fd": errno.EPERM}
    assert holders.holders(secretive, ["/dev/vfio/1"]) == holders.Held(
        (), "the open files of 2 processes may not be read (the first is pid 32); run as root with CAP_SYS_PTRACE"
    )
    with pytest.raises(Conflict, match=r"who uses 0000:01:00\.0 cannot be found out: .*run as root") as caught:
        holders.check_free(secretive, [CARD])
    assert caught.value.code == "holders-unknown"


def test_a_process_that_ends_while_we_look_is_nobody(secretive: Secretive) -> None:
    secretive.answers = {"proc/32/fd": errno.ENOENT, "proc/33/fd": errno.ESRCH}
    assert holders.holders(secretive, ["/dev/vfio/1"]) == holders.Held()


def test_any_other_failure_to_look_is_an_error(secretive: Secretive) -> None:
    secretive.answers = {"proc/32/fd": errno.EIO}
    with pytest.raises(HostError, match="cannot read /proc/32/fd"):
        holders.holders(secretive, ["/dev/vfio/1"])


def test_from_inside_a_container_s_pid_namespace_nobody_is_not_believed(host: PciBus) -> None:
    host.link_to("proc/self/ns/pid", "pid:[4026531836]")
    assert holders.holders(host, ["/dev/vfio/1"]).blind is None
    (host.base / "proc/self/ns/pid").unlink()
    host.link_to("proc/self/ns/pid", "pid:[4026532201]")
    with pytest.raises(Conflict, match=r"PID namespace of its own.*hostPID"):
        holders.check_free(host, [CARD])


def test_a_crowd_is_counted_and_all_of_it_is_in_the_details(host: PciBus) -> None:
    for pid in range(100, 111):
        host.open_file(pid, "trainer", "/dev/vfio/1")
    with pytest.raises(Conflict, match=r"pid 107 \(trainer\) has /dev/vfio/1 open; and 3 more") as caught:
        holders.check_free(host, [CARD])
    listed = caught.value.details["holders"]
    assert isinstance(listed, list)
    assert (len(listed), listed[0]) == (11, (100, "trainer", "/dev/vfio/1"))
