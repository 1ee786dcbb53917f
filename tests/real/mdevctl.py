"""The real mdevctl, which keeps definitions of mediated devices in ``/etc/mdevctl.d``."""

from __future__ import annotations

import shutil
import subprocess

from tests.real import packages


def install() -> None:
    """Install it, as root, when it is not there; else say what is missing and end the program."""
    if not shutil.which("mdevctl"):
        packages.install("mdevctl")


def run(*words: str) -> str:
    """What it prints; it must succeed."""
    return subprocess.run(["mdevctl", *words], check=True, capture_output=True, text=True).stdout
