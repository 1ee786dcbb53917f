"""Services started by a test run: on loopback, each in a process group of its own, ended with the run whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(url: str) -> bool:
    """Whether an HTTP server behind ``url`` answers at all, with anything but a server error."""
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - our own loopback address
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False


def wait_until(what: str, condition: Callable[[], bool], *, seconds: float = 30.0) -> None:
    """Return as soon as ``condition()`` holds; raises AssertionError naming ``what`` when it does not within ``seconds``."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.05)


#: Every service started in this run, in order.
STARTED: list[Service] = []


class Service:
    """One program that runs while tests need it.

    :param name: what a failure calls it; its output goes to ``<log_dir>/<name>.log``.
    :param argv: the program and its arguments.
    :param env: additions to this process's environment.
    """

    def __init__(
        self, name: str, argv: Sequence[str | Path], log_dir: Path, *, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log_dir / f"{name}.log"
        self._argv = [str(word) for word in argv]
        self._env = dict(env or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of its process, while it runs."""
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    def start(self, ready: Callable[[], bool], *, seconds: float = 60.0) -> None:
        """Start it and wait until ``ready()``. Raises AssertionError with the end of its log when it dies or is too slow."""
        self.launch()
        self.await_ready(ready, seconds=seconds)

    def launch(self) -> None:
        """Start it without waiting. Only from the main thread: the kernel ends it with the thread that started it."""
        assert not self.running, f"{self.name} runs already"
        if self not in STARTED:
            STARTED.append(self)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # setpriv: should the test run itself be killed outright, the kernel ends its services too.
        argv = ["setpriv", "--pdeathsig", "KILL", *self._argv]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._env},
                start_new_session=True,
            )

    def await_ready(self, ready: Callable[[], bool], *, seconds: float = 60.0) -> None:
        """Wait until ``ready()`` of what was launched. Raises AssertionError as :meth:`start` does."""
        assert self._process is not None, f"{self.name} was not launched"
        try:
            wait_until(f"{self.name} is up", lambda: not self.running or ready(), seconds=seconds)
            assert self.running, f"{self.name} ended while starting with status {self._process.returncode}"
        except AssertionError as error:
            self.stop()
            raise AssertionError(f"{error}\n{self.log_tail()}") from None

    def stop(self, *, signal_number: int = signal.SIGTERM, seconds: float = 15.0) -> None:
        """End it and all of its process group: politely first, then by force. Ending what does not run is fine."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal_number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to its whole process group (SIGSTOP makes a service that hangs)."""
        assert self._process is not None, f"{self.name} does not run"
        os.killpg(self._process.pid, number)

    def log_size(self) -> int:
        """Bytes it has written so far."""
        return self.log.stat().st_size if self.log.exists() else 0

    def log_tail(self, lines: int = 30, *, since: int = 0) -> str:
        """The end of what it has written after the first ``since`` bytes, under a heading."""
        text = self.log.read_bytes()[since:].decode(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([f"--- {self.log}, its last {lines} lines at most ---", *text[-lines:]])


@contextlib.contextmanager
def running(service: Service, ready: Callable[[], bool], *, seconds: float = 60.0) -> Iterator[Service]:
    """The service, started; ended when the block is left."""
    service.start(ready, seconds=seconds)
    try:
        yield service
    finally:
        service.stop()


def run(argv: Sequence[str | Path], log: Path, *, env: Mapping[str, str] | None = None, seconds: float = 120.0) -> None:
    """Run a program to its end; raises AssertionError with the end of its output when it does not succeed."""
    words = [str(word) for word in argv]
    log.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        words,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, **(env or {})},
    )
    output = done.stdout + done.stderr
    with log.open("a") as file:
        file.write(output)
    tail = "\n".join(output.splitlines()[-15:])
    assert done.returncode == 0, f"'{' '.join(words)}' ended with status {done.returncode}:\n{tail}"
