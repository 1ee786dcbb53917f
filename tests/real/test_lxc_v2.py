"""The tests of LXC once more, on a host of cgroup v2 alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.real.cgroup_v2 import alone

TESTS = [Path(__file__).with_name(name) for name in ("test_lxc.py", "test_lxc_failures.py")]


@pytest.mark.parametrize("tests", TESTS, ids=lambda path: path.stem)
def test_it_all_holds_on_a_host_of_cgroup_v2_alone(tests: Path) -> None:
    argv = alone([sys.executable, "-m", "pytest", str(tests), "-q", "-x", "-p", "no:cacheprovider"])
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
