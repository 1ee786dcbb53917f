"""One start of the guest, seen from the host: QEMU's process, its shares, and the two channels into it."""

from __future__ import annotations

import contextlib
import fcntl
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any

from tests.kernel.lab import qemu
from tests.kernel.lab.boots import Boot
from tests.kernel.lab.emulator import Emulator
from tests.kernel.lab.lines import Silence
from tests.kernel.lab.monitor import MonitorError

#: Seconds in which the guest must come up, which takes it 6 on a machine with nothing else to do.
TO_COME_UP = 120.0
#: Seconds in which each next message must come: a server starts in between, and processors may be shared.
TO_GO_ON = 240.0
#: The same where the guest's processor emulates another one.
TO_GO_ON_NESTED = 900.0
_CONSOLE_TAIL = 80
#: Seconds for a QEMU that is going down to write what its guest said last.
_LAST_WORDS = 5.0
_KEEP_BYTES = 64 << 20
#: Memory of a guest; of one that runs guests.
_MIB, _NESTED_MIB = 1024, 2048

#: PID 1 of the guest once the root is there. It must not end before the guest is off.
_RUN = """\
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
export PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
modprobe -a virtio_blk ext4 && mkdir -p /keep && mount /dev/vda /keep || echo 'LAB: no /keep' > /dev/console
cd {checkout}
{python} -m pytest -p tests.kernel.lab.inside -p no:cacheprovider @/lab/tests > /lab/pytest.log 2>&1 < /dev/null
echo $? > /lab/exit
dmesg > /lab/dmesg.log
umount /keep
sync
echo o > /proc/sysrq-trigger
read -r _ < /dev/console
"""


class GuestFailed(Exception):
    """The guest did not come up, went silent or died; the message ends with the tail of its console."""


class Lab:
    """What setup.sh made, and a folder for this run's results."""

    def __init__(self, folder: Path, results: Path) -> None:
        self.folder = folder
        self.results = results
        self.version = (folder / "version").read_text().strip()
        self.keep = results / "keep.img"
        self._lock: IO[str] | None = None

    @classmethod
    def prepare(cls, checkout: Path) -> Lab:
        """Makes the lab if need be. Raises CalledProcessError when it cannot be made; what went wrong is on stderr by then."""
        folder = _make("setup.sh")
        lab = cls(folder, folder.parent / "results")
        lab._take_turn()
        shutil.rmtree(lab.results, ignore_errors=True)
        lab.results.mkdir()
        with lab.keep.open("wb") as disk:
            disk.truncate(_KEEP_BYTES)
        subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", str(lab.keep)], check=True)
        for code in ("src", "tests"):  # to spare the guest's slow processor; what cannot be compiled is pytest's to say
            subprocess.run([sys.executable, "-m", "compileall", "-qq", str(checkout / code)], check=False)
        return lab

    @property
    def modules(self) -> Path:
        """The kernel's modules, by version."""
        return self.folder.parent / f"kernel-{self.version}" / "lib" / "modules"

    @cached_property
    def nested(self) -> Path:
        """What guests inside the guest boot from, made on first use. Raises CalledProcessError as :meth:`prepare` does."""
        return _make("nested.sh")

    @property
    def systemd(self) -> Path:
        """A root file system with systemd, and Cantle as the checkout has it. Raises CalledProcessError as :meth:`prepare` does."""
        return _make("systemd.sh")

    def _take_turn(self) -> None:
        """One run at a time in one lab: a second one waits here. The lock ends with the process."""
        self._lock = (self.folder.parent / "running").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write("lab: another run uses this lab; waiting for its end\n")
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def leave(self) -> None:
        """Lets the next run have the lab, before the process ends."""
        if self._lock is not None:
            self._lock.close()


def _make(script: str) -> Path:
    made = subprocess.run(
        ["bash", str(Path(__file__).with_name(script))], stdout=subprocess.PIPE, text=True, check=True
    )
    return Path(made.stdout.strip())


class Guest:
    """A running guest. Whoever starts one calls ``kill`` at the end, whatever happened: it ends QEMU in any state."""

    def __init__(self, lab: Lab, boot: Boot, checkout: Path, tests: Sequence[str]) -> None:
        self._patience = TO_GO_ON_NESTED if boot.nested else TO_GO_ON
        self._results = lab.results / boot.name
        self._results.mkdir()
        run = _RUN.format(checkout=shlex.quote(str(checkout)), python=shlex.quote(sys.executable))
        (self._results / "run").write_text(run)
        (self._results / "modules").write_text(f"{lab.folder / 'modules'}\n")
        if boot.nested:
            (self._results / "nested").write_text(f"{lab.nested}\n")
        (self._results / "tests").write_text("".join(f"{test}\n" for test in tests))
        self._emulator = Emulator(self._results, partial(_command, lab, boot, self._results))

    def kill(self) -> None:
        """Ends QEMU; a second call does nothing."""
        self._emulator.kill()

    def messages(self) -> Iterator[dict[str, Any]]:
        """What the guest's pytest says (tests/kernel/lab/inside.py), as it comes; serves its requests to the monitor in between.

        Ends when the guest has switched itself off. Raises GuestFailed when it fails before.
        """
        patience = TO_COME_UP
        while True:
            try:
                message = self._emulator.lines.receive(patience)
                if "ask" in message:
                    self._emulator.lines.send(self._answer(message))
                    continue
            except (Silence, EOFError, OSError) as failure:
                raise GuestFailed(self._post_mortem(str(failure))) from None
            if "end" in message:
                self._wait_off()
                return
            if "up" in message:
                patience = self._patience
                continue
            yield message

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"answer": self._emulator.monitor.execute(message["ask"], message["arguments"], message["until"])}
        except (MonitorError, Silence) as error:
            return {"refused": str(error)}

    def _wait_off(self) -> None:
        """Lets the guest write its logs and unmount /keep."""
        try:
            self._emulator.process.wait(TO_COME_UP)
        except subprocess.TimeoutExpired:
            raise GuestFailed(
                self._post_mortem("the tests have ended, but the guest does not switch itself off")
            ) from None

    def _post_mortem(self, what: str) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._emulator.process.wait(_LAST_WORDS)
        tails = []
        for name in ("qemu.log", "console.log", "pytest.log"):
            path = self._results / name
            lines = path.read_text(errors="replace").splitlines() if path.exists() else []
            tails += [f"--- end of {path}", *lines[-_CONSOLE_TAIL:]]
        return "\n".join([f"the guest failed: {what}; QEMU's exit status: {self._emulator.process.poll()}", *tails])


def _command(lab: Lab, boot: Boot, results: Path, channel: int, monitor: int) -> list[str]:
    mebibytes = _NESTED_MIB if boot.nested else _MIB
    arguments = ("panic=-1", *boot.kernel_arguments)
    return [
        *qemu.command(lab.folder, "initrd.img", arguments, mebibytes, results, channel, monitor),
        "-no-reboot",
        *qemu.share("root", Path("/"), readonly=True),
        *qemu.share("modules", lab.modules, readonly=True),
        *qemu.share("results", results, readonly=False),
        *qemu.disk("keep", lab.keep),
    ]
