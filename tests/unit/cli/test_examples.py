"""Every example in a command's help is run, as it stands there, against a server on which there is what the example speaks of."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import click
import pytest
from tests.unit.cli.commands import every_command, examples
from tests.unit.cli.serving import Done, Serving, serving

from cantle.cli.main import run
from cantle.simulate import description

UUID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
CARD = "gpu1/0000:af:00.0"

#: They run for ever, or change this machine: their own tests start them.
OF_THIS_MACHINE = {"serve", "agent join", "agent restore", "agent run", "cdi generate", "libvirt xml"} | {
    f"agent hooks {verb}" for verb in ("install", "remove", "show")
}

#: What an example ends with where it wants a Placement, a guest or a second host or one that is down: by command, noun or option.
#: The code says that all of it was understood; their own tests have what they want.
ENDS_WITH = {
    "--attach": "lease-failed",
    "--cyborg-conf": "config-file-missing",
    "placement": "placement-not-configured",
    "--placement": "placement-not-configured",
    "lease can-move": "host-not-found",
    "lease move": "host-not-found",
    "host forget": "host-still-up",
    "host rename": "host-still-up",
}

#: Its example goes on until somebody ends it.
ENDLESS = "--follow"

#: What the whole of the list below is run in: what takes the host away comes last.
LAST = ("host confirm", "host drain", "host undrain", "host rename", "host forget")


class Stage:
    """A server with a host named ``gpu1``, as in the examples."""

    def __init__(self, server: Serving) -> None:
        self._server = server

    def run(self, *words: str) -> Done:
        """Run one command line in this process."""
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = run(["--url", self._server.url, *words])
        return Done(code, out.getvalue(), err.getvalue())

    def set(self, path: str, words: list[str]) -> list[str]:
        """See to it that there is what the example speaks of, and no more; the example with uuids that exist."""
        noun, _, verb = path.partition(" ")
        if noun in ("lease", "arq", "profile", "explain", "device", "deployable", "token", "flavor"):
            self._give_back_all()
        if noun in ("lease", "arq", "explain") or path in ("profile show", "profile delete"):
            self._made("profile", "gold")
        if path == "profile delete":
            self._made("profile", "small")
        if noun == "lease" or (noun in ("flavor", "explain") and verb != "create"):
            self._made("flavor", "cg1.xlarge")
        if verb == "create":
            self._unmade(noun, words)
        if path.startswith("device intent"):
            self._checked("device", "set-mode", CARD, "passthrough")
        elif noun == "device":
            self.run("device", "intent", "clear", CARD)
        return [UUID.sub(lambda found: self._uuid(noun, found.group()), word) for word in words]

    def _uuid(self, noun: str, shown: str) -> str:
        if noun in ("lease", "arq"):
            made = json.loads(self._checked("lease", "create", "gold", "--wait", "-o", "json"))
            return str(made["uuid"] if noun == "lease" else made["arqs"][0]["uuid"])
        if noun == "deployable":
            return str(json.loads(self._checked("deployable", "list", "-o", "json"))[0]["uuid"])
        if noun == "token":
            return self._checked("token", "create", "x", "--role", "reader", "-c", "uuid", "-o", "value").strip()
        return shown

    def _made(self, noun: str, name: str) -> None:
        if self.run(noun, "show", name).code != 0:
            wish = ["--group", "resources:VGPU=1"] if noun == "profile" else ["--spec", "resources:VGPU=1"]
            self._checked(noun, "create", name, *wish)

    def _unmade(self, noun: str, words: list[str]) -> None:
        if noun in ("profile", "flavor"):
            name = "from-a-file" if "-f" in words else words[2]
            self.run(noun, "delete", name)

    def _give_back_all(self) -> None:
        for lease in self._checked("lease", "list", "-c", "uuid", "-o", "value").split():
            self._checked("lease", "release", lease, "--wait")

    def _checked(self, *words: str) -> str:
        done = self.run(*words)
        assert done.code == 0, (words, done)
        return done.out


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The server; the packaged host with the T4, under the examples' name."""
    place = tmp_path_factory.mktemp("examples")
    packaged = Path(description.__file__).with_name("hosts") / "t4.yaml"
    described = packaged.read_text(encoding="utf-8").replace("\nname: t4\n", "\nname: gpu1\n")
    (place / "gpu1.yaml").write_text(described, encoding="utf-8")
    aliases = place / "aliases.conf"
    aliases.write_text(
        '[pci]\nalias = {"name": "t4", "vendor_id": "10de", "product_id": "1eb8"}\n'
        '[labels]\ncard = {"vendor_id": "10de", "product_id": "1eb8", "units_per_guest": "4"}\n',
        encoding="utf-8",
    )
    with serving(place, "--config-file", str(aliases), host=str(place / "gpu1.yaml")) as server:
        server.await_capacity()
        yield Stage(server)


def commands() -> list[tuple[str, click.Command]]:
    """Every command that does something, in the order to run them in."""
    found = [(path, command) for path, command in every_command() if not isinstance(command, click.Group)]
    return sorted(found, key=lambda one: LAST.index(one[0]) if one[0] in LAST else -1)


def test_every_example_runs(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gold.yaml").write_text('name: from-a-file\ngroups: [{"resources:VGPU": 1}]\n')
    Path("new.conf").write_text("[DEFAULT]\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    failures = []
    for path, command in commands():
        if path in OF_THIS_MACHINE:
            continue
        for shown in [one for one in examples(command) if ENDLESS not in one]:
            words = stage.set(path, shown)
            monkeypatch.setattr(
                "sys.stdin", io.TextIOWrapper(io.BytesIO(b"0000:01:00.0 VGA [0300]: A B [10de:1eb8]\n"))
            )
            done = stage.run(*words)
            end = next((code for word, code in ENDS_WITH.items() if word in {path, path.split()[0], *shown}), None)
            if f"[{end}]" not in done.err if end else done.code != 0:
                failures.append((" ".join(shown), done))
    assert failures == []


def test_what_is_not_run_here_is_a_command() -> None:
    known = {path for path, _ in every_command()}
    assert {*OF_THIS_MACHINE, *ENDS_WITH, *LAST} - known <= {"placement", "--placement", "--attach", "--cyborg-conf"}
