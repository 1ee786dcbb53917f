"""The ``openstack`` command: python-openstackclient's accelerator commands, or python-cyborgclient's of the same names."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real.places import INSIDE, OLDER, PYTHON

#: Whose accelerator commands run, by the folder that has to stand in front on PYTHONPATH. From 10.4 on python-openstackclient has
#: its own, which hide python-cyborgclient's; before, it has none.
FLAVOURS: dict[str, Path | None] = {
    "python-openstackclient": None,
    "python-cyborgclient": OLDER / "python-openstackclient",
}


@dataclass(frozen=True)
class Done:
    """What a command did."""

    status: int
    output: str
    errors: str


class OpenStackCli:
    """A running child; made by :func:`command_line`."""

    def __init__(self, flavour: str, process: subprocess.Popen[str]) -> None:
        self.flavour = flavour
        self._process = process

    def run(self, person: str, *words: str) -> Done:
        """``openstack --os-cloud PERSON WORDS…``, whatever comes of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(["--os-cloud", person, *words]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the openstack child of {self.flavour} ended with status {self._process.wait(10)}"
        return Done(**json.loads(line))

    def text(self, person: str, *words: str) -> str:
        """The output of a command that has to succeed."""
        done = self.run(person, *words)
        assert done.status == 0, f"openstack {' '.join(words)} ended with status {done.status}: {done.errors[-2000:]}"
        return done.output

    def json(self, person: str, *words: str) -> Any:
        """The parsed output of a command that has to succeed and can print JSON."""
        return json.loads(self.text(person, *words, "-f", "json"))


@contextlib.contextmanager
def command_line(flavour: str, clouds_yaml: Path, log: Path) -> Iterator[OpenStackCli]:
    """The command of ``flavour``, ended when the block is left."""
    folder = FLAVOURS[flavour]
    env = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(clouds_yaml), **({"PYTHONPATH": str(folder)} if folder else {})}
    with (
        log.open("a") as errors,
        subprocess.Popen(
            [PYTHON, INSIDE / "shell.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=env,
        ) as process,
    ):
        try:
            yield OpenStackCli(flavour, process)
        finally:
            process.kill()
