"""What holds for every test: no settings of the developer's shell, no deadline that a slow machine would miss, and more workers than
cores."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# too_slow is a deadline as well: it fails a test that needs a second for its first ten examples, as on a machine that does much else.
settings.register_profile("cantle", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cantle")

#: What tests themselves are told: to write golden files anew, where the kernel lab is, and where a MariaDB is.
KEPT = ("CANTLE_GOLDEN", "CANTLE_LAB_DIR", "CANTLE_TEST_MARIADB")

for name in [name for name in os.environ if name.startswith("CANTLE_") and name not in KEPT]:
    del os.environ[name]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two for each core: half of a test's time is waiting, for a child, a server that stops, or an agent's next look. Not more than 16,
    since each begins by importing all tests."""
    return min(16, 2 * len(os.sched_getaffinity(0)))
