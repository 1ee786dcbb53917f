"""Databases of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.databases import KINDS, database

from cantle.store.database import Database


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
