"""A process that holds a mediated device open, as a guest's QEMU does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kernel.guest import sysfs

#: ioctl numbers of linux/vfio.h (type ';', base 100), and the ``type1v2`` IOMMU model.
_PROGRAM = """
import fcntl, os, struct, sys
SET_IOMMU, GROUP_SET_CONTAINER, GROUP_GET_DEVICE_FD, TYPE1V2 = 0x3B66, 0x3B68, 0x3B6A, 3
container = os.open("/dev/vfio/vfio", os.O_RDWR)
group = os.open(sys.argv[1], os.O_RDWR)
fcntl.ioctl(group, GROUP_SET_CONTAINER, struct.pack("i", container))
fcntl.ioctl(container, SET_IOMMU, TYPE1V2)
device = fcntl.ioctl(group, GROUP_GET_DEVICE_FD, sys.argv[2].encode() + b"\\0")
if sys.argv[3:]:
    os.close(group)
    os.close(container)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(name: str, *, seen: bool = True) -> Iterator[int]:
    """Holds a vfio device (an mdev's uuid, or the address of a function on vfio-pci) and gives the pid; lets go at the end.

    :param seen: False keeps the device alone open, which has no name under ``/proc``: nobody can tell which process it is.
    """
    devices = sysfs.MDEVS if (sysfs.MDEVS / name).exists() else sysfs.PCI / "devices"
    number = (devices / name / "iommu_group").readlink().name
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, os.path.join("/dev/vfio", number), name, *([] if seen else ["unseen"])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            assert process.stdout.readline() == "held\n"
            yield process.pid
        finally:
            process.stdin.close()
