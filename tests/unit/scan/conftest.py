"""The tree that tests of the scan start from."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.kernel.tree import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty host."""
    return Tree(tmp_path / "host")
