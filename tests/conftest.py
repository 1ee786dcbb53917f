"""What holds for every test: no settings of the developer's shell, no deadline that a slow machine would miss, files in memory where
there is room, and more workers than cores."""

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

#: Where Linux has memory that looks like a disk, and how much of it must be free: a test keeps some MB until it has passed. Many
#: containers have 64 MB there, on which nothing may be run.
_MEMORY = "/dev/shm"  # noqa: S108 - pytest makes a private directory below
_ROOM = 1 << 30


def _is_roomy(place: str) -> bool:
    """Whether tests can keep their files there, and run the programs that they write."""
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    free = found.f_bavail * found.f_frsize
    return os.access(place, os.W_OK | os.X_OK) and not found.f_flag & os.ST_NOEXEC and free >= _ROOM


# A simulated host has a thousand small files, and SQLite waits for the disk at each commit.
if "TMPDIR" not in os.environ and _is_roomy(_MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two for each core: half of a test's time is waiting, for a child, a server that stops, or an agent's next look. Not more than 16,
    since each begins by importing all tests."""
    return min(16, 2 * len(os.sched_getaffinity(0)))
