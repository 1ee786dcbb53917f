"""Running one of the system's own tools where a file will not do: a list of arguments, no shell, nothing to read, a limit of time or an end
that is ours to set."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator, Sequence
from typing import NamedTuple

from cantle.errors import HostError

#: The tools of a system sit in sbin, which the PATH of services and ordinary users may lack.
SEARCH = "/usr/sbin:/sbin:/usr/bin:/bin"
_TAIL = 400


class Ran(NamedTuple):
    """What a tool came to: its exit status, the end of what it said (on standard error, else on standard output) in one line, and all that
    it wrote to standard output."""

    status: int
    words: str
    out: str = ""


def run(argv: Sequence[str], seconds: float) -> Ran:
    """Run a tool of this machine to its end; ``argv[0]`` is its name.

    :raises HostError: ``tool-not-run``: there is none, it does not start, or it did not end in time (it is killed then).
    """
    name, tool = argv[0], _find(argv[0])
    try:
        done = subprocess.run(
            [tool, *argv[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise HostError("tool-not-run", f"{name} did not end within {seconds:g} s") from error
    except OSError as error:
        raise HostError("tool-not-run", f"{tool} does not run: {error.strerror}", errno=error.errno) from error
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines()]
    return Ran(done.returncode, "; ".join(filter(None, lines))[-_TAIL:], done.stdout)


class Talk:
    """A tool that goes on saying things, until it or :meth:`end` ends it.

    :raises HostError: ``tool-not-run``: there is none, or it does not start.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        tool = _find(argv[0])
        try:
            self._process = subprocess.Popen(
                [tool, *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise HostError("tool-not-run", f"{tool} does not run: {error.strerror}", errno=error.errno) from error

    def lines(self) -> Generator[str, None, None]:
        """What it says on standard output, a line at a time, as it says it. Ends when the tool has ended; who reads no further ends it."""
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        try:
            with self._process.stdout as said:
                for line in said:
                    yield line.rstrip("\n")
        finally:
            self.end()
            self._process.wait()

    def end(self) -> None:
        """Have it end, from any thread; :meth:`lines` does then."""
        self._process.terminate()


def _find(name: str) -> str:
    tool = shutil.which(name, path=SEARCH)
    if tool is None:
        raise HostError("tool-not-run", f"there is no {name} in {SEARCH}")
    return tool
