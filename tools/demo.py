"""``make demo``: starts Cantle with a simulated two-card host and does the main job with the commands a person would type.

Every step is checked, not only shown: the first one that is not as it should be ends the demo with its name. All it makes
stands in ``.demo/`` of the checkout. What a demo killed half-way left there, a running server included, is cleared first.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

CHECKOUT = Path(__file__).resolve().parent.parent
PLACE = Path(os.environ.get("CANTLE_DEMO_DIR") or CHECKOUT / ".demo")
STATE = PLACE / "state"
LOG = PLACE / "serve.log"
PID = PLACE / "serve.pid"
CONFIG = PLACE / "cantle.conf"
HOST = "t4"
TREE = STATE / "simulated" / HOST
MDEVS = TREE / "sys" / "bus" / "mdev" / "devices"
CARD = "0000:af:00.0"
TRAIT = "CUSTOM_NVIDIA_1EB8_T4_2B"

#: Seconds any one step may take before the demo calls it failed.
PATIENCE = 30.0

WANTED_CONFIG = f"""\
# The slices to make: GRID T4-2B on the card at {CARD}.
[gpu_devices]
enabled_vgpu_types = nvidia-223

[vgpu_nvidia-223]
device_addresses = {CARD}
"""


class StepFailed(Exception):
    """A step did not do what it should; the text says what was seen."""


class Server:
    """A running ``cantle serve``."""

    def __init__(self) -> None:
        log = LOG.open("w")
        command = ["cantle", "serve", "--simulate", HOST, "--simulated-only", "--listen", "127.0.0.1:0"]
        command += ["--state-dir", relative(STATE), "--config-file", relative(CONFIG)]
        print(f"$ {shlex.join(command)} &")
        self.process = subprocess.Popen(
            executable(command), cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
        )
        log.close()
        PID.write_text(str(self.process.pid), encoding="utf-8")

    def wait_ready(self) -> str:
        """The address it serves on, once it says so."""
        out = self.process.stdout
        assert out is not None  # noqa: S101 - for the type checker
        line = read_line(out, PATIENCE)
        print(indent(line or "(no answer)"))
        address = next((word for word in line.split() if word.startswith("http://")), None)
        if address is None:
            raise StepFailed(f"the server did not say that it is ready; {relative(LOG)} says:\n{log_tail()}")
        return address

    def stay(self) -> None:
        """Return never, unless it ends by itself."""
        self.process.wait()
        raise StepFailed(f"the server ended by itself; {relative(LOG)} says:\n{log_tail()}")

    def stop(self) -> None:
        """End it, politely at first."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Demo:
    """The steps, in order. Each prints its commands and their output, and raises StepFailed when the outcome is wrong."""

    def __init__(self) -> None:
        self.lease = ""
        self.handle = ""
        self.before: list[dict[str, Any]] = []

    def scan(self) -> None:
        """Look at the hardware."""
        show(f"cantle scan --root {shlex.quote(relative(TREE))} -c address -c name -c mode -c verdict")
        rows = ask(f"cantle scan --root {shlex.quote(relative(TREE))}")
        card: dict[str, Any] = next((row for row in rows if row["address"] == CARD), {})
        expect((card.get("vendor_id"), card.get("device_id")) == ("10de", "1eb8"), f"no Tesla T4 at {CARD}", rows)

    def capacity(self) -> None:
        """See what can be lent."""
        self.before = until(
            lambda: ask("cantle capacity"), lambda rows: {"VGPU", "PGPU"} <= {r["resource_class"] for r in rows}
        )
        show("cantle capacity")
        expect(
            all(row["used"] == 0 and row["free"] == row["total"] > 0 for row in self.before),
            "not all is free",
            self.before,
        )

    def profile(self) -> None:
        """Describe what a workload may ask for."""
        show(f"cantle profile create small-gpu --group resources:VGPU=1,trait:{TRAIT}=required")
        expect(len(ask("cantle profile list")) == 1, "the profile is not listed")

    def lend(self) -> None:
        """Lend one."""
        show("cantle lease create small-gpu --workload vm1 --wait")
        leases = ask("cantle lease list")
        expect([lease["state"] for lease in leases] == ["active"], "there is not exactly one active lease", leases)
        self.lease = leases[0]["uuid"]

    def bound(self) -> None:
        """See the accelerator request behind it."""
        (arq,) = ask(f"cantle lease show {self.lease}")["arqs"]
        show(f"cantle arq show {arq['uuid']}")
        arq = ask(f"cantle arq show {arq['uuid']}")
        expect(arq["state"] == "Bound", "the request is not Bound", arq)
        self.handle = arq["attach_handle_uuid"]

    def made(self) -> None:
        """See the mediated device in the host's tree."""
        show(f"ls {shlex.quote(relative(MDEVS))}")
        expect(mdevs() == [self.handle], f"it is not exactly the one of the request, {self.handle}", mdevs())

    def attach(self) -> None:
        """Get what attaches it to a libvirt guest."""
        text = show(f"cantle lease xml {self.lease}")
        expect(self.handle in text and "<hostdev" in text, "the XML does not name the mediated device", text)

    def release(self) -> None:
        """Give it back."""
        show(f"cantle lease release {self.lease} --wait")
        show(f"ls {shlex.quote(relative(MDEVS))}")
        expect(mdevs() == [], "a mediated device is left", mdevs())
        show("cantle capacity")
        after = ask("cantle capacity")
        expect(after == self.before, "the capacity is not what it was before", after)

    def steps(self) -> list[Callable[[], None]]:
        """All of them, in order."""
        return [self.scan, self.capacity, self.profile, self.lend, self.bound, self.made, self.attach, self.release]


def main() -> int:
    """Run the demo; 0 when every step was right. With ``--keep`` the server stays until Ctrl-C."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / "lock").open("a+") as lock:
        if not hold(lock):
            print("demo: another demo is running in this checkout; end it first, or wait for it.", file=sys.stderr)
            return 1
        clear_leftovers()
        CONFIG.write_text(WANTED_CONFIG, encoding="utf-8")
        return perform(keep="--keep" in sys.argv[1:])


def perform(*, keep: bool) -> int:
    """Start a server, do every step against it, and end it; the exit code."""
    started = time.monotonic()
    demo = Demo()
    step = "serve"
    heading(step, "Start Cantle with a simulated host of two cards. ('cantle' is .venv/bin/cantle.)")
    server = Server()
    try:
        try:
            address = server.wait_ready()
        except StepFailed:
            if "state-dir-in-use" not in log_tail():
                raise
            clear_leftovers()  # the server of a demo that was killed while it started was quicker than ours
            server.stop()
            server = Server()
            address = server.wait_ready()
        os.environ["CANTLE_URL"] = address
        print(f"$ export CANTLE_URL={address}")
        for action in demo.steps():
            step = action.__name__
            heading(step, action.__doc__ or "")
            action()
        summary(demo, address, time.monotonic() - started, keep=keep)
        step = "keep"
        if keep:
            server.stay()
    except StepFailed as error:
        print(f"\ndemo: FAILED at step '{step}': {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print()
        return 0 if step == "keep" else 130
    finally:
        server.stop()
    return 0


def hold(lock: IO[str]) -> bool:
    """Whether this demo is now the only one of the checkout."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def end_starting_server() -> None:
    """End a server whose demo was killed before it had the lock of the state directory, and would take it from ours."""
    try:
        process = int(PID.read_text(encoding="utf-8"))
        command = Path(f"/proc/{process}/cmdline")
        if b"--simulated-only" in command.read_bytes():
            os.kill(process, signal.SIGKILL)
        while b"--simulated-only" in command.read_bytes():
            time.sleep(0.05)
    except (OSError, ValueError):
        return  # none was left, or it has gone meanwhile


def clear_leftovers() -> None:
    """End the server that a killed demo left running (it holds the lock of our state directory), and remove its files."""
    end_starting_server()
    lock = STATE / "lock"
    deadline = time.monotonic() + PATIENCE
    while lock.exists():
        with lock.open("r+") as file:
            if hold(file):
                break
            holder = file.read().strip()
        if time.monotonic() > deadline or not holder.isdigit():
            raise SystemExit(f"demo: process {holder or '?'} of an earlier demo cannot be ended; end it by hand.")
        print(f"demo: ending the server {holder} that an earlier demo left", file=sys.stderr)
        hurry = time.monotonic() > deadline - PATIENCE / 2
        os.kill(int(holder), signal.SIGKILL if hurry else signal.SIGTERM)
        time.sleep(0.5)
    shutil.rmtree(STATE, ignore_errors=True)


def show(line: str) -> str:
    """Run a command as a person would, showing it and what it prints; its standard output."""
    print(f"$ {line}", flush=True)
    done = run(shlex.split(line), stderr=subprocess.STDOUT)
    print(indent(done.stdout if done.stdout.strip() else "(nothing)"))
    if done.returncode != 0:
        raise StepFailed(f"'{line}' ended with exit code {done.returncode}.")
    return done.stdout


def ask(line: str) -> Any:
    """The JSON that a command prints with ``-o json``, without showing it."""
    done = run([*shlex.split(line), "-o", "json"], stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise StepFailed(f"'{line} -o json' ended with exit code {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def run(command: list[str], *, stderr: int) -> subprocess.CompletedProcess[str]:
    """One command in the checkout, with its output caught."""
    try:
        return subprocess.run(
            executable(command), cwd=CHECKOUT, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=stderr, timeout=PATIENCE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise StepFailed(f"'{shlex.join(command)}' did not end within {PATIENCE:.0f} s.") from error


def until(look: Callable[[], Any], good: Callable[[Any], bool]) -> Any:
    """What ``look`` sees once it is good."""
    deadline = time.monotonic() + PATIENCE
    while not good(seen := look()):
        if time.monotonic() > deadline:
            raise StepFailed(f"still not so after {PATIENCE:.0f} s: {seen}")
        time.sleep(0.1)
    return seen


def expect(right: bool, otherwise: str, seen: object = "") -> None:
    """Go on only if it is right."""
    if not right:
        raise StepFailed(f"{otherwise}. Seen: {seen}" if seen != "" else f"{otherwise}.")


def executable(command: list[str]) -> list[str]:
    """The command with ``cantle`` as the one installed beside the Python that runs us."""
    return [str(Path(sys.executable).parent / "cantle"), *command[1:]] if command[0] == "cantle" else command


def mdevs() -> list[str]:
    """The mediated devices in the simulated host's tree."""
    return sorted(os.listdir(MDEVS))


def read_line(stream: IO[str], seconds: float) -> str:
    """The next line, or "" when the stream ends or the time is over."""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        return stream.readline().strip() if selector.select(seconds) else ""


def summary(demo: Demo, address: str, seconds: float, *, keep: bool) -> None:
    """One screen: what was shown, and where to go from here."""
    print(
        f"""
------------------------------------------------------------------------
It works. In {seconds:.1f} s Cantle found a Tesla T4 and a whole card, lent a
2 GB slice of the T4 to vm1, and took it back.

  lease      {demo.lease}
  mdev       {demo.handle}, made and removed
  host tree  {relative(TREE)}
  log        {relative(LOG)}"""
    )
    if keep:
        print(f"  look at    {address}, up until you press Ctrl-C\n\nIn another terminal:")
        print(f"  export CANTLE_URL={address}\n  .venv/bin/cantle capacity")
    else:
        print(f"  was at     {address}; 'make demo KEEP=1' leaves it up")
    print("------------------------------------------------------------------------", flush=True)


def heading(step: str, what: str) -> None:
    """The line above a step."""
    print(f"\n== {step}: {what}", flush=True)


def indent(text: str) -> str:
    """Output of a command, set off from the command."""
    return "\n".join(f"  {line}" for line in text.rstrip("\n").split("\n"))


def log_tail() -> str:
    """The end of the server's log."""
    return indent("\n".join(LOG.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]) or "(nothing)")


def relative(path: Path) -> str:
    """A path as a person in the checkout would type it."""
    return str(path.relative_to(CHECKOUT) if path.is_relative_to(CHECKOUT) else path)


if __name__ == "__main__":
    sys.exit(main())
