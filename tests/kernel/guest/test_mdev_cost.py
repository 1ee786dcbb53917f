"""What ``python -m bench.mdev`` has done in the guest. That it works is tested; what it measures is printed there, and judged there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.kernel.guest import sysfs

#: On the share with the boot's results, where the program finds it.
RESULT = Path("/lab/mdev-cost")


def test_the_cost_of_a_mediated_device_is_measured_and_nothing_is_left_behind() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.mdev", "--here", "mtty", "mtty-1"], capture_output=True, text=True, check=False
    )
    RESULT.write_text(done.stdout)
    assert "of the best rounds" in done.stdout, done.stderr
    assert sysfs.mdevs() == set()
