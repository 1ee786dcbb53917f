"""A machine that is started again with units lent: they are there before anything that would use them, without a server."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.kernel.lab.machine import address
from tests.kernel.systemd.cloud import AGENT, RESTORE, UNITS, Cloud, handles
from tests.kernel.systemd.computer import Computer
from tests.kernel.systemd.disk import CONTAINER

_WHOLE = f"/sys/bus/pci/devices/{address('t4-second')}"
_STARTED, _ENDED = "ExecMainStartTimestampMonotonic", "ExecMainExitTimestampMonotonic"
_LXC = ("systemd-run", "--quiet", "--property=Type=forking", "--property=Delegate=yes", "--")


@pytest.mark.parametrize("again", [Computer.reboot, Computer.pull_the_plug], ids=["reboot", "loss of power"])
def test_what_is_lent_is_there_again_before_libvirt_and_the_agent_start(
    cloud: Cloud, again: Callable[[Computer], None]
) -> None:
    computer = cloud.computer
    computer.run("cantle", "agent", "hooks", "install")
    serial = cloud.lend("serial")
    slice_ = cloud.lend("slice", attach=f"lxc:{CONTAINER}")
    whole = cloud.lend("whole")
    lent = {*handles(serial), *handles(slice_)}
    assert cloud.mdevs() == lent
    computer.run("sync")

    again(computer)

    assert computer.said("cat", "/run/lab-mdevs-before-libvirt").split() == sorted(lent)
    restored = computer.unit(RESTORE, _STARTED, _ENDED, "Result")
    assert restored["Result"] == "success"
    assert moment(computer, "nvidia-vgpud.service", _ENDED) <= int(restored[_STARTED])
    assert int(restored[_ENDED]) <= moment(computer, "libvirtd.service", _STARTED)
    assert int(restored[_ENDED]) <= moment(computer, AGENT, _STARTED)
    assert computer.said("readlink", "-f", f"{_WHOLE}/driver").endswith("/vfio-pci")
    assert computer.said("systemctl", "is-active", *UNITS).split() == ["active"] * len(UNITS)

    computer.run(*_LXC, "lxc-start", "-n", CONTAINER, "--daemon")
    group = computer.said("readlink", f"/sys/bus/mdev/devices/{handles(slice_)[0]}/iommu_group").rsplit("/", 1)[-1]
    opened = f"exec 3<>/dev/vfio/{group} && echo opened"
    assert computer.said("lxc-attach", "-n", CONTAINER, "--clear-env", "--", "/bin/sh", "-c", opened) == "opened"
    computer.run("lxc-stop", "-n", CONTAINER, "-k")

    for lease in (serial, slice_, whole):
        cloud.give_back(lease)
    assert cloud.mdevs() == set()
    assert computer.said("readlink", "-f", f"{_WHOLE}/driver").endswith("/nvidia")


def moment(computer: Computer, unit: str, which: str) -> int:
    """Microseconds since the start of the machine."""
    return int(computer.unit(unit, which)[which])
