"""What the pages for operators must name: a newcomer finds every command and every collection there."""

from __future__ import annotations

import re

from tests.unit.cli.commands import every_command
from tests.unit.house.checkout import CHECKOUT

from cantle.api.routes import PUBLIC_ROUTES


def test_every_command_stands_on_the_page_of_commands() -> None:
    page = (CHECKOUT / "docs" / "cli.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    told: set[str] = set()
    for row in rows:
        words = re.findall(r"`([a-z][a-z -]*)", row)
        noun = words[0].split()[0] if words else ""
        told |= {word.strip() for word in words} | {f"{noun} {word.strip()}" for word in words}
        told |= {f"{words[0].rsplit(' ', 1)[0]} {word.strip()}" for word in words}
    commands = {path for path, command in every_command() if not hasattr(command, "commands")}
    assert commands - told == set()


def test_every_collection_stands_on_the_page_of_the_api() -> None:
    page = (CHECKOUT / "docs" / "api.md").read_text(encoding="utf-8")
    collections = {"/".join(route.path.split("/")[:3]) for route in PUBLIC_ROUTES if route.path.startswith("/v1/")}
    assert {one for one in collections if one not in page} == set()
