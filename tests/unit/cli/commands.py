"""All commands of ``cantle``, and the examples in their help."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Iterator

import click

from cantle.cli.main import cantle


def every_command() -> Iterator[tuple[str, click.Command]]:
    """Each command with the words that name it: ``lease create``."""
    yield from _below(cantle, "")


def _below(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        path = f"{prefix} {name}".strip()
        yield path, command
        if isinstance(command, click.Group):
            yield from _below(command, path)


def examples(command: click.Command) -> list[list[str]]:
    """The arguments of each line ``cantle …`` in a command's help; pipes and what feeds them are left out."""
    lines = [line.strip() for line in inspect.cleandoc(command.help or "").splitlines()]
    found = []
    for line in lines:
        words = shlex.split(line.split("|")[-1].strip() if "| cantle" in line else line.split("|")[0].strip())
        if words[:1] == ["cantle"]:
            found.append(words[1:])
    return found
