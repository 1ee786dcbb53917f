"""Write docs/first-commands.md and its pictures: ``python tools/screens.py``. Real output of a running Cantle with a simulated host.

Each command runs on a pseudo-terminal of 80 columns, so what is seen is what an operator sees, colours and folding included.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

CHECKOUT = Path(__file__).resolve().parent.parent
PAGE = CHECKOUT / "docs" / "first-commands.md"
PICTURES = CHECKOUT / "docs" / "pictures"

COLUMNS, LINES = 80, 60

CONFIG = "[gpu_devices]\nenabled_vgpu_types = nvidia-223\n[vgpu_nvidia-223]\ndevice_addresses = 0000:af:00.0\n"

#: Command, and the sentence above its picture. ``{lease}`` is the one made before.
STEPS = (
    (
        "scan",
        "What is in this machine, and what could be lent of it. Needs no server and no rights, and changes nothing.",
    ),
    ("host list", "Which hosts have an agent, and whether they were heard of lately."),
    ("device list", "The cards of all hosts, lendable or not, with the reason."),
    ("capacity", "What can be lent now."),
    ("profile create small --group resources:VGPU=1", "A profile says what one guest gets: here one slice of a card."),
    (
        "lease create small --workload vm1 --wait",
        "Borrow it. With `--wait` the command returns when the slice is there.",
    ),
    ("lease list", "Who has what."),
    ("lease xml {lease}", "What to put into the guest's libvirt definition."),
    (
        "device set-mode 0000:86:00.0 passthrough --plan",
        "What a change of a card would take, before anything is touched.",
    ),
    ("lease release {lease} --wait", "Give it back. No output is good news."),
    ("capacity", "It is free again."),
    ("lease show {lease}x", "A mistake is one line: what is wrong, a code, and an exit code for scripts."),
    ("explain-error bad-uuid", "And the code is explained."),
)

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b")


def main() -> None:
    """Run the steps against a server of our own and write page and pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cantle-screens-") as scratch, serving(Path(scratch)) as url:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("CANTLE_", "OS_", "NO_COLOR"))}
        env |= {"CANTLE_URL": url, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
        tree = Path(scratch) / "state" / "simulated" / "t4"
        parts = [_HEAD]
        lease = ""
        for number, (step, sentence) in enumerate(STEPS, 1):
            shown = step.replace("{lease}", lease)
            words = shlex.split(shown)
            if words[0] == "scan":
                words += ["--root", str(tree)]
            said = on_terminal(["cantle", *words], env).replace(str(tree), "/")
            if found := _UUID.search(said) if step.startswith("lease create") else None:
                lease = found.group()
            name = f"{number:02d}-{'-'.join(words[:2] if not words[1:2] or words[1].isalpha() else words[:1])}.svg"
            picture(f"cantle {shown}", said, PICTURES / name)
            parts.append(f"## {number}. `cantle {step}`\n\n{sentence}\n\n![cantle {step}](pictures/{name})")
        PAGE.write_text("\n\n".join(parts).replace("{lease}", "LEASE") + "\n", encoding="utf-8")


_HEAD = """# The first commands

What an operator types on the first day, and what is seen: real output on a terminal of 80 columns, from a Cantle with a simulated host
(`cantle serve --simulate t4 --simulated-only`) whose configuration has the T4 cut into slices; without one, say so at the card:
`cantle device set-mode 0000:af:00.0 mdev --type nvidia-223`. The simulated host is a tree of files that `cantle scan --root
STATE_DIR/simulated/t4` looks at. Made by `python tools/screens.py`. All commands: [cli.md](cli.md)."""


@contextmanager
def serving(scratch: Path) -> Iterator[str]:
    """The address of a server with the simulated host, once that has reported."""
    config = scratch / "cantle.conf"
    config.write_text(CONFIG, encoding="utf-8")
    cantle = [sys.executable, "-m", "cantle.cli.main"]
    command = [*cantle, "serve", "--simulate", "t4", "--simulated-only", "--listen", "127.0.0.1:0"]
    command += ["--state-dir", str(scratch / "state"), "--config-file", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            url = next(word for word in line.split() if word.startswith("http://"))
            while not subprocess.run([*cantle, "--url", url, "capacity"], check=True, capture_output=True).stdout[80:]:
                pass
            yield url
        finally:
            process.send_signal(signal.SIGTERM)


def on_terminal(command: list[str], env: dict[str, str]) -> str:
    """What a command shows on a terminal, standard error included."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:  # Linux answers EIO when the other side is closed
            pass
        finally:
            os.close(ours)
        code = process.wait()
    said = re.sub(r"\r[^\n]*\r(?!\n)", "", b"".join(parts).decode()).replace("\r\n", "\n")
    return said + (f"\x1b[2m(exit code {code})\x1b[0m\n" if code else "")


def picture(command: str, said: str, file: Path) -> None:
    """One screen as SVG, without fonts or anything else from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w", encoding="utf-8"), force_terminal=True)  # noqa: SIM115
    prompt = Text.assemble(("$ ", "bold green"), (command, "bold"))
    for begin in range(0, len(prompt), COLUMNS):
        console.print(prompt[begin : begin + COLUMNS], soft_wrap=True)
    for line in said.rstrip("\n").split("\n"):
        shown = Text.from_ansi(line)
        for begin in range(0, max(len(shown), 1), COLUMNS):  # as a terminal does it, in the middle of a word
            console.print(shown[begin : begin + COLUMNS], soft_wrap=True)
    drawn = console.export_svg(title=command, theme=MONOKAI, unique_id="cantle")
    file.write_text(re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
