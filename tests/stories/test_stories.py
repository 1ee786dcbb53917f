"""Each YAML file beside this one is a story, told over HTTP to the real applications."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stories.teller import tell

STORIES = sorted(Path(__file__).parent.glob("*.yaml"))


@pytest.mark.parametrize("file", STORIES, ids=lambda file: file.stem)
def test_story(file: Path, tmp_path: Path) -> None:
    """The story comes out as written."""
    tell(file, tmp_path)
