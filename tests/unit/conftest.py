"""What holds for unit tests: files in memory where there is room; and databases of each kind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.databases import KINDS, database

from cantle.store.database import Database

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


@pytest.fixture(params=KINDS)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty, migrated database, of each kind in turn."""
    with database(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    """An empty, migrated SQLite database."""
    with database("sqlite", tmp_path) as opened:
        yield opened
