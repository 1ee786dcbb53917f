"""Programs of the distribution that tests of this tier need."""

from __future__ import annotations

import os
import subprocess
import sys


def install(*names: str) -> None:
    """Install packages, as root; else say what is missing and end the program."""
    print(f"test-real: installing {' '.join(names)} …", flush=True)
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=600"]
    for words in (["update"], ["install", "-y", "--no-install-recommends", *names]):
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run([*apt, *words], check=False, capture_output=True, text=True, env=env, timeout=600)
        if done.returncode:
            sys.exit(f"apt-get {' '.join(words)} failed; install {' '.join(names)} yourself:\n{done.stderr[-2000:]}")
