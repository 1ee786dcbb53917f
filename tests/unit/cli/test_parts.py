"""Signals end a server: whenever they come, and whichever thread the kernel gives them to."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.unit.cli.serving import PATIENCE

#: A server of one part. What the part does is put in; the main thread is known as ``MAIN``.
SERVER = """
import signal, sys, threading, time
from cantle.cli.parts import Parts

MAIN = threading.get_ident()

def place():
    frame = sys._current_frames()[MAIN]
    return frame.f_code.co_name, frame.f_lasti

def until_it_waits():
    "Until the main thread was at the same place of a wait for a hundred looks: it sleeps there."
    looks, before = 0, place()
    while looks < 100:
        time.sleep(0.001)
        looks, before = looks + 1 if before == place() and before[0] == "wait" else 0, place()

{part}

parts = Parts()
with parts.signals():
    {before}
    parts.start("part", part)
    parts.wait()
    assert parts.stop.is_set()
    parts.join()
print("ended")
"""


def ended(part: str, before: str = "pass") -> subprocess.CompletedProcess[str]:
    """Run the server until it ends."""
    script = SERVER.format(part=part, before=before)
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_signal_that_the_kernel_gives_to_another_thread_ends_the_server(number: str) -> None:
    done = ended(f"def part():\n    until_it_waits()\n    signal.pthread_kill(threading.get_ident(), signal.{number})")
    assert (done.stdout, done.stderr) == ("ended\n", "")


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_signal_that_comes_before_the_server_waits_ends_it(number: str) -> None:
    done = ended("def part():\n    parts.stop.wait()", before=f"signal.raise_signal(signal.{number})")
    assert (done.stdout, done.stderr) == ("ended\n", "")


def test_a_part_that_fails_ends_the_server_with_its_failure() -> None:
    done = ended("def part():\n    raise LookupError('no such card')")
    assert done.returncode == 1
    assert "LookupError: no such card" in done.stderr


def test_a_second_signal_while_the_parts_end_ends_the_process_at_once() -> None:
    part = "def part():\n    until_it_waits()\n    signal.raise_signal(signal.SIGINT)\n    parts.stop.wait()\n    "
    done = ended(part + "signal.raise_signal(signal.SIGINT)\n    threading.Event().wait()")
    assert done.returncode == -2
    assert done.stdout == ""
