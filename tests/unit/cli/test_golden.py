"""What every command prints, to the letter: one operator's day against a real server with a simulated host.

Each step's command, output and exit code are compared with a file in ``golden/``. Uuids, times and addresses differ from run to run and
are replaced by words. After a change that is meant, ``CANTLE_GOLDEN=write make unit`` writes the files anew: look at the difference.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from tests.unit.cli.commands import every_command
from tests.unit.cli.serving import Done, Serving, serving

from cantle import __version__
from cantle.cli.main import run
from cantle.cli.output import FORMATS
from cantle.model.token import PATTERN

GOLDEN = Path(__file__).parent / "golden"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)")


def every_way(step: str, column: str) -> tuple[str, ...]:
    """The step in every format, and with one column in the formats for programs."""
    return (
        step,
        *(f"{step} -o {fmt}" for fmt in FORMATS if fmt != "table"),
        *(f"{step} -c {column} -o {fmt}" for fmt in FORMATS),
    )


#: In order; each step sees what the ones before it did. ``{lease}`` and the like stand for uuids that earlier steps made.
DAY = (
    *every_way("scan --root {tree}", "address"),
    "scan --root {tree} --all -c address -c verdict",
    "scan --root {tree} -c colour",
    "scan --root {state}/nowhere",
    "scan --lspci {state}/nowhere",
    "cdi generate --root {tree}",
    "cdi generate --root {state}/nowhere",
    "libvirt xml --root {tree} 0000:af:00.0 0000:86:00.0",
    "libvirt xml --root {tree} 0000:af:00.0 --at 0a:00",
    "libvirt xml --root {tree} 0000:ff:00.0",
    "config check --config-file {config} --state-dir {state}",
    "config check --config-file {state}/nowhere --state-dir {state}",
    "completion bash",
    "completion zsh",
    "completion fish",
    "completion csh",
    *every_way("host list", "hostname"),
    "host list --down",
    *every_way("host show t4", "up"),
    "host show nowhere",
    *every_way("device list", "address"),
    "device list --host nowhere",
    "device list --type GPU -c address -c model -o value",
    "device list --mode mdev -c address -o value",
    "device list --health failed",
    "device list --mode toast",
    "device list --sort model:desc -c model -o value",
    "device list --sort numa_node --limit 2 -c numa_node -c address",
    "device list --sort colour",
    "device list --sort model:up",
    "device list -c colour",
    *every_way("device show 0000:af:00.0", "mode"),
    "device show t4/0000:AF:00.0 -o json",
    "device show {t4}",
    "device show 0000:ff:00.0",
    *every_way("device set-mode 0000:af:00.0 passthrough --plan", "mode"),
    "device set-mode 0000:ff:00.0 passthrough",
    "device intent show 0000:af:00.0",
    "device intent clear 0000:af:00.0",
    "device disable 0000:86:00.0",
    "device list --type GPU",
    "device show 0000:86:00.0 -c status -c out_of_service -o value",
    "device enable 0000:86:00.0",
    "device show 0000:86:00.0 -c status -c out_of_service -o json",
    "device disable 0000:ff:00.0",
    *every_way("deployable list", "uuid"),
    "deployable list --class VGPU -c hostname -c total -o value",
    "deployable list --host nowhere",
    *every_way("deployable show {vgpus}", "resource_class"),
    "deployable show 00000000-0000-4000-8000-000000000000",
    *every_way("capacity", "free"),
    "inventory --free -c resource_class -c free -o value",
    "capacity --class VGPU --sort free:desc --limit 1",
    "capacity --host nowhere",
    "profile list",
    "profile create small --group resources:VGPU=1,trait:CUSTOM_NVIDIA_1EB8_T4_2B=required --description 'Two gigabytes.'",
    "profile create whole --group resources:PGPU=1 -o json",
    "profile create small --group resources:VGPU=1",
    "profile create odd --group size=1",
    "profile create odd --group resources:VGPU",
    "profile create odd",
    *every_way("profile list", "name"),
    *every_way("profile show small", "groups"),
    "profile show nothing",
    "profile show a/b",
    "lease list",
    "lease create small --workload vm1 --wait",
    "lease create whole --wait -o json",
    "lease create whole",
    "lease create nothing",
    "lease create small --host nowhere",
    "lease create small --count 0",
    *every_way("explain --profile small", "code"),
    "flavor create two --spec resources:VGPU=2 -o json",
    "flavor create two --spec resources:VGPU=2",
    *every_way("flavor list", "name"),
    *every_way("flavor show two", "name"),
    "flavor show nothing",
    "explain --flavor two",
    "flavor delete two",
    "flavor delete two",
    *every_way("pool list", "hostname"),
    "placement check",
    "placement diff",
    "placement sync t4",
    "placement adopt --plan",
    *every_way("lease list", "state"),
    "lease list -o value -c state -c workload",
    "lease list --workload vm1 --profile small --host t4 -c state -o value",
    "lease list --workload vm2",
    *every_way("lease show {lease}", "state"),
    "lease show 00000000-0000-4000-8000-000000000000",
    "lease show one",
    "lease xml {lease}",
    "lease xml {whole}",
    "lease can-move {lease} --to nowhere",
    "lease can-move {lease} --to t4",
    "lease move {lease} --to t4",
    "lease move {lease} --to nowhere --stopped",
    *every_way("arq list", "uuid"),
    "arq list --state BindFailed",
    "arq list --host t4 -c profile_name -o value",
    *every_way("arq show {arq}", "state"),
    "arq show 00000000-0000-4000-8000-000000000000",
    *every_way("events", "type"),
    "events --open --type lease.active --channel webhook",
    "events --follow --type lease.active",
    *every_way("who vm1", "device"),
    "who 0000:af:00.0 --past -c action",
    "who nobody",
    "lease renew {lease} --expires 2h -c on_expiry -c state",
    "lease renew {lease} --expires-at 2999-01-01T00:00:00Z --on-expiry notify -o json",
    "lease renew {lease} --on-expiry stop-guest --never",
    "lease renew {lease} --expires soon",
    "lease renew {lease} --expires-at tomorrow",
    "lease renew {lease}",
    "quota set 00000000-0000-0000-0000-000000000000 VGPU=1 PGPU=2",
    *every_way("quota show", "used"),
    "quota set lab VGPU",
    "quota set --default VGPU=4",
    "quota set --default",
    "quota set lab vgpu=1",
    "quota set lab CUSTOM_MI300=1",
    "quota set lab CUSTOM_MI300=none",
    "quota set 00000000-0000-0000-0000-000000000000 VGPU=none PGPU=none",
    "quota show 00000000-0000-0000-0000-000000000000 -o json",
    "usage -c project_id -c resource_class -c loans",
    "usage --from 2001-01-01 --to 2001-02-01",
    "usage --from 2001-02-01 --to 2001-01-01",
    "usage --from yesterday",
    *every_way("capacity --states", "lent"),
    "lease release {lease} --force",
    "lease release {lease} --reason because",
    "capacity",
    "profile delete small",
    "lease release {lease} --wait",
    *every_way("audit list --action unit.returned", "action"),
    "audit list --action unit.lost",
    "audit export --action unit.returned",
    "lease release {lease}",
    "lease release {whole} --wait --timeout 30",
    "lease release 00000000-0000-4000-8000-000000000000",
    "lease xml {lease}",
    "lease list",
    "lease list --all",
    "capacity",
    "profile delete small whole",
    "profile delete small",
    "profile list -o json",
    "host drain t4",
    "host list",
    "host show t4 -c state -c drained_by",
    "host undrain t4",
    "host undrain nowhere",
    "host confirm t4",
    "host rename t4 t5",
    "host forget t4",
    "host invite gpu2",
    "host invite gpu2 --expires-in 2d",
    "token list",
    "token create ci --role member --project lab --expires-in 30d",
    "token create ci --role member -c token -o value",
    "token create alice --role king",
    "token create alice --role reader --expires-in soon",
    "token list",
    "token list -o wide",
    "token list -o json",
    "token revoke {token}",
    "token revoke 00000000-0000-4000-8000-000000000000",
    "token list --all",
    "explain-error wait-timed-out",
    "explain-error wait-timed-ot",
    "devise list",
    "device lits",
    "device list --hots x",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The server of the day."""
    with serving(tmp_path_factory.mktemp("golden")) as running:
        running.await_capacity()
        yield running


def test_every_command_prints_what_it_printed_before(server: Serving) -> None:
    """One test, since each step needs the ones before it; every difference is reported, not only the first."""
    differences = []
    names = Names()
    for step, file in zip(DAY, files(), strict=True):
        if "{" in step:
            names.learn(server)
        shown = names.hide(show(step, perform(server, names.fill(step))), server)
        if os.environ.get("CANTLE_GOLDEN") == "write":
            file.parent.mkdir(exist_ok=True)
            file.write_text(shown, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != shown:
            differences.append(f"--- {file.name}\n{shown}")
    assert not differences, "\n".join(differences)


def test_the_golden_files_are_exactly_those_of_the_day() -> None:
    assert sorted(GOLDEN.iterdir()) == sorted(files())


def test_every_client_command_is_part_of_the_day() -> None:
    leaves = {path for path, command in every_command() if not hasattr(command, "commands")}
    shown = {path for path in leaves for step in DAY if f"{step} ".startswith(f"{path} ")}
    of_this_host = {
        "serve",
        "agent run",
        "agent join",
        "agent restore",
        "agent hooks install",
        "agent hooks remove",
        "agent hooks show",
        "config sample",  # docs/deploy/cantle.conf.sample is its golden file
    }  # they have tests of their own
    assert leaves - shown == of_this_host


def perform(server: Serving, line: str) -> Done:
    """Run one command line in this process: what it prints to each stream, and its exit code."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = run(["--url", server.url, *shlex.split(line)])
    return Done(code, out.getvalue(), err.getvalue())


def show(step: str, done: Done) -> str:
    """A step with all it did, as a terminal would show it."""
    parts = [f"$ cantle {step}\n", done.out]
    if done.err:
        parts.append(f"-- standard error\n{done.err}")
    if done.code:
        parts.append(f"-- exit code {done.code:d}\n")
    return "".join(parts)


def files() -> list[Path]:
    """The file of each step, named after it; a step that comes again has a number."""
    names = [re.sub(r"[^a-z0-9]+", "-", step.lower()).strip("-")[:60].strip("-") for step in DAY]
    times = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return [
        GOLDEN / (f"{name}.txt" if time == 1 else f"{name}-{time}.txt") for name, time in zip(names, times, strict=True)
    ]


class Names:
    """Words for the uuids of this run, in the order they are met, and uuids for the words in the steps."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._words: dict[str, str] = {}

    def learn(self, server: Serving) -> None:
        """Look at what there is now for the uuids that steps name."""
        self._known |= {
            "state": str(server.state),
            "tree": str(server.state / "simulated" / "t4"),
            "config": str(server.state.parent / "cantle.conf"),
        }
        if "vgpus" not in self._known:
            rows = json.loads(perform(server, "capacity -o json").out)
            self._known["vgpus"] = next(row["deployable_uuid"] for row in rows if row["resource_class"] == "VGPU")
            (t4,) = json.loads(perform(server, "device list --mode mdev -o json").out)
            self._known["t4"] = t4["uuid"]
        for lease in json.loads(perform(server, "lease list -o json").out):
            self._known["lease" if lease["profile_name"] == "small" else "whole"] = lease["uuid"]
            if lease["profile_name"] == "small":
                self._known["arq"] = lease["arqs"][0]["uuid"]
        for token in json.loads(perform(server, "token list -o json").out):
            self._known["token"] = token["uuid"]

    def fill(self, step: str) -> str:
        """The step with real uuids."""
        return re.sub(r"\{(\w+)\}", lambda found: self._known[found.group(1)], step)

    def hide(self, text: str, server: Serving) -> str:
        """The text with words of equal length in place of what differs from run to run."""
        text = PATTERN.sub(lambda found: "<token>".ljust(len(found.group()), "~"), text)
        text = UUID.sub(lambda found: self._word(found.group()), text)
        text = text.replace(__version__, "<version>".ljust(len(__version__), "~"))
        text = TIME.sub(lambda found: "<time>".ljust(len(found.group()), "~"), text)
        text = text.replace(str(server.state), "STATE").replace(str(server.state.parent), "PLACE")
        return text.replace(server.url, "http://127.0.0.1:PORT")

    def _word(self, uuid: str) -> str:
        if uuid.startswith("00000000-"):
            return uuid
        return self._words.setdefault(uuid, f"<uuid-{len(self._words) + 1}>".ljust(len(uuid), "~"))
