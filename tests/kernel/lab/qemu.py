"""QEMU's command line, as far as all guests of the lab have it in common. Software emulation only: docs/kernel-lab.md."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests.kernel.lab import machine

_KERNEL_ARGUMENTS = (
    "console=ttyS0",
    "no_timer_check",  # on a busy machine the emulated timer is late, and the kernel panics over it
    "quiet",
    "loglevel=4",
    "mitigations=off",
    "random.trust_cpu=on",
    "tsc=reliable",
)


def command(
    lab: Path, initrd: str, kernel_arguments: Sequence[str], mebibytes: int, results: Path, channel: int, monitor: int
) -> list[str]:
    """A guest with the cards of machine.py; a share, a disk and whatever else it has come behind.

    setpriv has QEMU killed with us, should we be. Never KVM: a /dev/kvm that opens may still not run a stock kernel, and software
    emulation is the same everywhere.

    :param lab: what setup.sh made; ``initrd`` is a file in it.
    :param results: the folder for the console's log.
    :param channel: a descriptor that the guest's virtio port named "lab" is connected to; ``monitor``: one for QMP.
    """
    return [
        *("setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"),
        *("-name", "cantle-lab", "-nodefaults", "-no-user-config", "-display", "none"),
        *("-machine", "q35,vmport=off", "-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max", *_board(mebibytes)),
        *("-kernel", str(lab / "vmlinux"), "-initrd", str(lab / initrd)),
        *("-append", " ".join([*_KERNEL_ARGUMENTS, *kernel_arguments])),
        *("-chardev", f"file,id=console,path={escaped(results / 'console.log')}", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control"),
        *("-chardev", f"socket,id=channel,fd={channel}", "-device", "virtio-serial-pci"),
        *("-device", "virtserialport,chardev=channel,name=lab"),
        *machine.device_arguments(),
    ]


def share(tag: str, path: Path, *, readonly: bool) -> list[str]:
    """A folder of the host's, to be mounted by its tag (9p)."""
    mode = ",readonly=on" if readonly else ""
    filesystem = f"local,id={tag},path={escaped(path)},security_model=none,multidevs=remap{mode}"
    return ["-fsdev", filesystem, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def disk(name: str, image: Path) -> list[str]:
    """A disk; the first one is /dev/vda."""
    return ["-drive", f"if=none,id={name},format=raw,file={escaped(image)}", "-device", f"virtio-blk-pci,drive={name}"]


def escaped(path: os.PathLike[str]) -> str:
    """A path inside an option of QEMU's, where a comma is written twice."""
    return os.fspath(path).replace(",", ",,")


def _board(mebibytes: int) -> list[str]:
    """Two sockets of one CPU, each with half of the memory as a node of its own: what the policy ``socket`` needs to see."""
    half = mebibytes // 2
    nodes = [
        word
        for number, size in enumerate((half, mebibytes - half))
        for word in (
            *("-object", f"memory-backend-ram,id=node{number},size={size}M"),
            *("-numa", f"node,nodeid={number},cpus={number},memdev=node{number}"),
        )
    ]
    return ["-smp", "2,sockets=2,cores=1,threads=1", "-m", str(mebibytes), *nodes]
