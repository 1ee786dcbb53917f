"""The agent in its sandbox at its daily work, on the kernel's own files."""

from __future__ import annotations

from tests.kernel.lab.machine import address
from tests.kernel.systemd.cloud import AGENT, Cloud, handles
from tests.kernel.systemd.disk import CONTAINER

_SECOND = f"/sys/bus/pci/devices/{address('t4-second')}"
_IN_CONTAINER = ("lxc-attach", "-n", CONTAINER, "--clear-env", "--", "/bin/sh", "-c")


def test_mediated_devices_of_two_drivers_are_made_and_taken_back(cloud: Cloud) -> None:
    for profile in ("serial", "slice"):
        lease = cloud.lend(profile)
        (unit,) = handles(lease)
        assert cloud.mdevs() == {unit}
        cloud.give_back(lease)
        assert cloud.mdevs() == set()


def test_a_whole_card_goes_to_vfio_and_back_to_its_driver(cloud: Cloud) -> None:
    lease = cloud.lend("whole")
    assert cloud.computer.said("readlink", "-f", f"{_SECOND}/driver").endswith("/vfio-pci")
    cloud.give_back(lease)
    assert cloud.computer.said("readlink", "-f", f"{_SECOND}/driver").endswith("/nvidia")


def test_an_agent_that_is_restarted_keeps_what_it_lent(cloud: Cloud) -> None:
    lease = cloud.lend("serial")
    cloud.computer.run("systemctl", "restart", AGENT)
    assert cloud.mdevs() == set(handles(lease))
    assert cloud.lease(lease)["state"] == "active"
    cloud.give_back(lease)
    assert cloud.mdevs() == set()


def test_a_container_is_started_with_its_lease_outside_of_the_agents_sandbox(cloud: Cloud) -> None:
    computer = cloud.computer
    lease = cloud.lend("slice", attach=f"lxc:{CONTAINER}", start=True)
    try:
        (unit,) = handles(lease)
        pid = computer.said("lxc-info", "-n", CONTAINER, "-p", "-H")
        assert AGENT not in computer.said("cat", f"/proc/{pid}/cgroup")
        group = computer.said("readlink", f"/sys/bus/mdev/devices/{unit}/iommu_group").rsplit("/", 1)[-1]
        opened = f"test -c /dev/vfio/{group} && exec 3<>/dev/vfio/{group} && echo opened"
        assert computer.said(*_IN_CONTAINER, opened) == "opened"
        computer.run("systemctl", "restart", AGENT)
        assert computer.said("lxc-info", "-n", CONTAINER, "-p", "-H") == pid
    finally:
        cloud.give_back(lease)
    assert computer.said(*_IN_CONTAINER, f"ls /dev/vfio/{group} 2>/dev/null || echo none") == "none"
    computer.run("lxc-stop", "-n", CONTAINER, "-k")
    assert cloud.mdevs() == set()
