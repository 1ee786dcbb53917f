"""Simulated hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cantle import simulate


@pytest.fixture
def t4(tmp_path: Path) -> simulate.SimulatedRoot:
    return simulate.build(simulate.load("t4"), tmp_path / "t4")


@pytest.fixture
def mtty(tmp_path: Path) -> simulate.SimulatedRoot:
    return simulate.build(simulate.load("mtty"), tmp_path / "mtty")
