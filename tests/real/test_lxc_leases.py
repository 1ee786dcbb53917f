"""Leases into real containers and their hooks, on a host of cgroup v1 (or hybrid, as this machine is) and on one of v2 alone."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.real.cards import laid
from tests.real.cgroup_v2 import alone

INSIDE = Path(__file__).with_name("inside") / "lxc_leases.py"


@pytest.mark.parametrize("layout", ["as-it-is", "v2-alone"])
def test_cards_are_lent_to_containers_by_lease_and_come_back(layout: str) -> None:
    argv = laid([sys.executable, "-m", "pytest", str(INSIDE), "-q", "-x", "-p", "no:cacheprovider"])
    argv = ["unshare", "--mount", *argv] if layout == "as-it-is" else alone(argv)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    finally:
        with contextlib.suppress(OSError):
            os.rmdir("/dev/dri")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
