"""One host and a real Placement for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.placement_service import Placement, placement
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
