"""A real libvirt with domains that are emulated in software. No machine of this tier has to have an IOMMU, so nothing is passed through."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from pathlib import Path

from tests.real import packages
from tests.real.processes import Service

_NEEDS = {
    "virsh": "libvirt-clients",
    "libvirtd": "libvirt-daemon-system",
    "virt-xml-validate": "libvirt-clients",
    "xmllint": "libxml2-utils",
    "qemu-system-x86_64": "qemu-system-x86",
}
_SEARCH = "/usr/sbin:/sbin:/usr/bin:/bin"

_DOMAIN = """
<domain type='qemu'>
  <name>{name}</name>
  <uuid>{uuid}</uuid>
  <memory unit='MiB'>64</memory>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <serial type='null'/>
  </devices>
</domain>
"""


def install() -> None:
    """Install libvirt, as root, when it is not there; else say what is missing and end the program."""
    missing = {package for tool, package in _NEEDS.items() if not shutil.which(tool, path=_SEARCH)}
    if missing:
        packages.install(*sorted(missing), "libvirt-daemon-driver-qemu")


def virsh(*words: str, check: bool = True) -> str:
    """What virsh says on standard output."""
    done = subprocess.run(
        ["virsh", "-q", "-c", "qemu:///system", *words], capture_output=True, text=True, check=False, timeout=90
    )
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


def answers() -> bool:
    """Whether a libvirt daemon does."""
    return (
        subprocess.run(["virsh", "-q", "-c", "qemu:///system", "list"], capture_output=True, check=False).returncode
        == 0
    )


#: A /dev with the least that QEMU needs, and no kvm in it; QEMU gets none of its own, which would be made from a whole one.
_WITHOUT_KVM = """
set -e
mkdir -p "$1"
mount -t tmpfs none "$1"
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty "$1"
mkdir "$1/pts" "$1/shm"
mount --rbind /dev/pts "$1/pts"
ln -s pts/ptmx "$1/ptmx"
mount --rbind "$1" /dev
cp /etc/libvirt/qemu.conf "$2"
echo 'namespaces = []' >> "$2"
mount --bind "$2" /etc/libvirt/qemu.conf
exec "$0"
"""


def daemons(log: Path) -> list[Service]:
    """What has to run for libvirt to answer, in order. They see no /dev/kvm: where it is there and does not work, as on some machines that
    are virtual themselves, libvirt asks QEMU about it anew at each call, which takes ten seconds."""
    tools = [Path(shutil.which(tool, path=_SEARCH) or tool) for tool in ("virtlogd", "libvirtd")]
    hidden = ("unshare", "--mount", "sh", "-c", _WITHOUT_KVM)
    return [
        Service(tool.name, [*hidden, tool, log / f"dev-{tool.name}", log / f"{tool.name}.conf"], log) for tool in tools
    ]


class Domain:
    """One domain, defined."""

    def __init__(self, directory: Path) -> None:
        self.name = f"cantle-test-{uuid.uuid4().hex[:8]}"
        file = directory / f"{self.name}.xml"
        file.write_text(_DOMAIN.format(name=self.name, uuid=uuid.uuid4()))
        virsh("define", str(file))

    def xml(self, *words: str) -> str:
        """As libvirt has it; ``--inactive`` for as it is defined."""
        return virsh("dumpxml", self.name, *words)

    def is_valid(self, directory: Path) -> bool:
        """Whether libvirt's own schema takes it, as it is defined."""
        file = directory / "dumped.xml"
        file.write_text(self.xml("--inactive"))
        done = subprocess.run(["virt-xml-validate", str(file), "domain"], capture_output=True, text=True, check=False)
        return done.returncode == 0

    def remove(self) -> None:
        """End it and forget it."""
        virsh("destroy", self.name, check=False)
        virsh("undefine", self.name, check=False)
