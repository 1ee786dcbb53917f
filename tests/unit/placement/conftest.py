"""One host and a real Placement for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.databases import KINDS, database
from tests.placement_service import Placement, placement
from tests.unit.placement.cloud import Cloud
from tests.unit.placement.world import World


@pytest.fixture
def service() -> Iterator[Placement]:
    """A Placement with nothing in it."""
    with placement() as made:
        yield made


@pytest.fixture
def world(service: Placement) -> World:
    """A compute node in Placement."""
    return World(service)


@pytest.fixture(params=KINDS)
def cloud(request: pytest.FixtureRequest, tmp_path: Path, service: Placement) -> Iterator[Cloud]:
    """One host, without cards yet."""
    with database(request.param, tmp_path) as db:
        yield Cloud(db, service)
