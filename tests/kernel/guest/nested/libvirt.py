"""libvirt in the guest, and its guests: emulated in software a second time, with the kernel and the init of tests/kernel/lab/nested.sh."""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kernel.guest import sysfs

_DEFINED = Path("/etc/libvirt/qemu")
_SETTINGS = Path("/etc/libvirt/qemu.conf")
#: No user of QEMU's, no security labels, no private /dev: what a distribution's systemd and udev would prepare is not there.
_PLAIN = """
stdio_handler = "file"
security_driver = "none"
user = "root"
group = "root"
namespaces = []
cgroup_controllers = []
remember_owner = 0
"""

_DOMAIN = """
<domain type='qemu'>
  <name>{name}</name>
  <uuid>{uuid}</uuid>
  <memory unit='MiB'>64</memory>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{folder}/vmlinux</kernel>
    <initrd>{folder}/initrd.img</initrd>
    <cmdline>console=ttyS0 quiet tsc=reliable no_timer_check</cmdline>
  </os>
  <features><acpi/><apic/></features>
  <cpu mode='custom' match='exact'><model>qemu64</model></cpu>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    <controller type='pci' model='pcie-root'/>
    {ports}
    <serial type='file'><source path='{console}'/></serial>
    <memballoon model='none'/>
  </devices>
</domain>
"""
_PORTS = 5


class Daemon:
    """libvirt's daemon, whose domains are kept in a folder. Starting it does not wait for it: :func:`answers`."""

    def __init__(self, kept: Path) -> None:
        kept.mkdir(exist_ok=True)
        subprocess.run(["mount", "--bind", str(kept), str(_DEFINED)], check=True)
        with _SETTINGS.open("a") as settings:
            settings.write(_PLAIN)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Domains that run are found again."""
        with Path("/lab/libvirtd.log").open("ab") as log:
            self._process = subprocess.Popen(["/usr/sbin/libvirtd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self) -> None:
        """Domains run on."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    @contextmanager
    def away(self) -> Iterator[None]:
        """It does not run inside the ``with`` block, and answers again after it."""
        self.stop()
        try:
            yield
        finally:
            self.start()
            sysfs.until(answers, "libvirt answers again", 300)

    @contextmanager
    def cannot_write(self) -> Iterator[None]:
        """Its configuration is on a disk that was mounted read-only."""
        subprocess.run(["mount", "-o", "remount,bind,ro", str(_DEFINED)], check=True)
        try:
            yield
        finally:
            subprocess.run(["mount", "-o", "remount,bind,rw", str(_DEFINED)], check=True)


def virsh(*words: str) -> str:
    """What virsh says. Fails with its words when it does."""
    done = subprocess.run(["virsh", "-q", "-c", "qemu:///system", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"virsh {' '.join(words)}: {done.stderr}"
    return done.stdout


def answers() -> bool:
    """Whether the daemon does."""
    argv = ["virsh", "-q", "-c", "qemu:///system", "uri"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


class Domain:
    """A guest of libvirt's; :meth:`define` it before use."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self._console = Path(f"/lab/{name}.console")
        self._xml = _DOMAIN.format(
            name=name,
            uuid=f"00000000-0000-4000-8000-{number:012}",
            folder=Path("/lab/nested").read_text().strip(),
            ports="<controller type='pci' model='pcie-root-port'/>" * _PORTS,
            console=self._console,
        )

    def define(self) -> None:
        """As it was written down once, without any unit."""
        file = Path(f"/run/{self.name}.xml")
        file.write_text(self._xml)
        virsh("define", str(file))

    def start(self, *words: str) -> None:
        """Returns when QEMU runs; its kernel has only begun then."""
        virsh("start", self.name, *words)

    @property
    def state(self) -> str:
        """In libvirt's words: running, paused, shut off."""
        return virsh("domstate", self.name).strip()

    def pull_the_plug(self) -> None:
        """Off at once, if it runs."""
        if self.state != "shut off":
            virsh("destroy", self.name)

    def sources(self) -> str:
        """Of which of the host's devices its definition speaks: addresses in sysfs's form, uuids of mediated devices."""
        xml = "".join(re.findall(r"<source>.*?</source>", virsh("dumpxml", "--inactive", self.name), re.DOTALL))
        at = re.findall(r"<address domain='0x(\w+)' bus='0x(\w+)' slot='0x(\w+)' function='0x(\w+)'/>", xml)
        return " ".join(["{}:{}:{}.{}".format(*parts) for parts in at] + re.findall(r"<address uuid='([^']+)'/>", xml))

    def bus(self) -> Counter[str]:
        """What its kernel said last that is on its bus: how many of each ``vendor:device``. Nothing before it is up."""
        lines = self._console.read_text(errors="replace").splitlines() if self._console.exists() else []
        said = [line.split()[1:] for line in lines if line.startswith("BUS ")]
        return Counter(one.partition("=")[2] for one in said[-1]) if said else Counter()

    def until_it_sees(self, expected: dict[str, int], seconds: float = 400.0) -> None:
        """Waits until it has exactly so many functions of these kinds. Fails with what it has."""
        sysfs.until(self._console.exists, f"{self.name} has a console", 300)
        seen: dict[str, int] = {}

        def sees() -> bool:
            nonlocal seen
            now = self.bus()
            seen = {kind: now[kind] for kind in expected}
            return bool(now) and seen == expected

        began = time.monotonic()
        try:
            sysfs.until(sees, f"{self.name} sees {expected}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; it sees {seen or 'nothing, it is not up'}") from None
        print(f"{self.name} saw {expected} after {time.monotonic() - began:.0f} s")
