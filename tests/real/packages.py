"""Programs of the distribution that tests of this tier need."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def install(*names: str) -> None:
    """Install packages, as root; else say what is missing and end the program."""
    print(f"test-real: installing {' '.join(names)} …", flush=True)
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=600"]
    for words in (["update"], ["install", "-y", "--no-install-recommends", *names]):
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run([*apt, *words], check=False, capture_output=True, text=True, env=env, timeout=600)
        if done.returncode:
            sys.exit(f"apt-get {' '.join(words)} failed; install {' '.join(names)} yourself:\n{done.stderr[-2000:]}")


def unpack(place: Path, *names: str) -> None:
    """Unpack packages below a directory and install nothing, nor what they depend on; else say what is missing and end the program."""
    print(f"test-real: unpacking {' '.join(names)} …", flush=True)
    with tempfile.TemporaryDirectory(prefix="cantle-packages-") as downloads:
        fetch = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *names]
        for argv in (["apt-get", "-qq", "update"], fetch):
            done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=downloads, timeout=600)
            if done.returncode:
                sys.exit(f"{' '.join(argv)} failed:\n{done.stderr[-2000:]}")
        for package in sorted(Path(downloads).glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, place], check=True, timeout=120)
