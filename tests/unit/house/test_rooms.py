"""docs/architecture.md draws exactly the rooms that exist."""

from __future__ import annotations

import re

from tests.unit.house.checkout import CHECKOUT, SOURCE

PAGE = CHECKOUT / "docs" / "architecture.md"


def test_the_diagram_shows_exactly_the_rooms_that_exist() -> None:
    diagram = re.search(r"```mermaid\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert diagram is not None
    drawn = set(re.findall(r"\b(\w+)\[", diagram.group(1)))
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py") if any(path.parent.glob("*.py"))}
    assert drawn == rooms
