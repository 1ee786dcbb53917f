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
    """The arguments of each ``cantle`` in the example lines of a command's help; what it is piped from or to is left out."""
    found = []
    for line in inspect.cleandoc(command.help or "").splitlines():
        if not line.startswith("  ") or "cantle " not in line:
            continue
        words = shlex.split(line.partition(" > ")[0])
        ends = [place for place, word in enumerate(words) if word == "|"]
        parts = [
            words[begin:end] for begin, end in zip([0, *(end + 1 for end in ends)], [*ends, len(words)], strict=True)
        ]
        found += [part[1:] for part in parts if part[0] == "cantle"]
    return found
