"""A running ``cantle serve`` for measurements, on state of its own, with a simulated host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

CANTLE = [sys.executable, "-m", "cantle.cli.main"]
CONFIG = "[gpu_devices]\nenabled_vgpu_types = nvidia-223\n[vgpu_nvidia-223]\ndevice_addresses = 0000:af:00.0\n"


@contextmanager
def serving(fill: Callable[[str], object] | None = None) -> Iterator[subprocess.Popen[str]]:
    """The server's process, once it is ready; CANTLE_URL names it while the block runs.

    :param fill: puts something into its database, whose URL it is given, before the start.
    """
    with tempfile.TemporaryDirectory(prefix="cantle-bench-") as scratch:
        if fill is not None:
            Path(scratch, "state").mkdir(mode=0o700)
            fill(f"sqlite:///{scratch}/state/cantle.db")
        config = Path(scratch, "cantle.conf")
        config.write_text(CONFIG, encoding="utf-8")
        command = [*CANTLE, "serve", "--simulate", "t4", "--simulated-only", "--listen", "127.0.0.1:0"]
        command += ["--state-dir", f"{scratch}/state", "--config-file", str(config)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                address = next((word for word in line.split() if word.startswith("http://")), None)
                if address is None:
                    raise SystemExit("bench: the server did not start; its words are above")
                os.environ["CANTLE_URL"] = address
                yield process
            finally:
                process.send_signal(signal.SIGTERM)


def cantle(*arguments: str) -> str:
    """What a command prints; it must succeed."""
    return subprocess.run([*CANTLE, *arguments], check=True, capture_output=True, text=True).stdout
