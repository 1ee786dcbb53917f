"""``make man``: writes man pages from the commands' own help, and the shells' completions, below ``build/`` for whoever packages Cantle.

The pages are plain man(7) macros. Section 1 has ``cantle`` with a page for each command, section 8 the programs of the services.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from cantle import __version__
from cantle.api.policy_cli import main as policy
from cantle.cli.keeper import keeper
from cantle.cli.main import cantle
from cantle.cli.manage import manage
from cantle.cli.status import status

CHECKOUT = Path(__file__).resolve().parent.parent

#: Program, its command, its section of the manual.
PROGRAMS: tuple[tuple[str, click.Command, int], ...] = (
    ("cantle", cantle, 1),
    ("cantle-keeper", keeper, 8),
    ("cantle-manage", manage, 8),
    ("cantle-policy", policy, 8),
    ("cantle-status", status, 8),
)

COMPLETIONS = {"bash": "cantle", "zsh": "_cantle", "fish": "cantle.fish"}


def main(target: Path) -> None:
    """Write everything below ``target``."""
    for name, text in pages():
        file = target / f"man{name[-1]}" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for shell, name in COMPLETIONS.items():
        made = get_completion_class(shell)
        assert made is not None  # noqa: S101 - click has all three
        file = target / "completions" / shell / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(made(cantle, {}, "cantle", "_CANTLE_COMPLETE").source(), encoding="utf-8")


def pages() -> Iterator[tuple[str, str]]:
    """Name (``cantle-lease-create.1``) and text of each page."""
    for program, command, section in PROGRAMS:
        for context in _below(click.Context(command, info_name=program, **command.context_settings)):
            name = context.command_path.replace(" ", "-")
            yield f"{name}.{section}", _page(context, name, section)


def _below(context: click.Context) -> Iterator[click.Context]:
    yield context
    for name, command in _subcommands(context):
        yield from _below(click.Context(command, info_name=name, parent=context))


def _subcommands(context: click.Context) -> list[tuple[str, click.Command]]:
    group = context.command
    if not isinstance(group, click.Group):
        return []
    found = ((name, group.get_command(context, name)) for name in group.list_commands(context))
    return [(name, command) for name, command in found if command is not None and not command.hidden]


def _page(context: click.Context, name: str, section: int) -> str:
    command = context.command
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    about = command.get_short_help_str(limit=200).rstrip(".")
    parts = [
        f'.TH "{name.upper()}" "{section}" "{date}" "Cantle {__version__}" "Cantle"',
        f".SH NAME\n{_text(name)} \\- {_text(about[:1].lower() + about[1:])}",
        f".SH SYNOPSIS\n.B {_text(context.command_path)}\n{_text(' '.join(command.collect_usage_pieces(context)))}",
        f".SH DESCRIPTION\n{_described(command.help or '')}",
        _options(context),
        _commands(context, name, section),
        *_of_all(context),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _described(help_text: str) -> str:
    """Paragraphs are filled; what click leaves as it is (after ``\\b``) stays as it is here too."""
    shown = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(help_text)):
        lines = paragraph.split("\n")
        if lines[0] == "\b":
            heading, *rest = lines[1:]
            indented = "\n".join(map(_text, rest or [heading]))
            shown.append((f".PP\n{_text(heading)}\n" if rest else ".PP\n") + f".nf\n{indented}\n.fi")
        else:
            shown.append(".PP\n" + "\n".join(_text(line.strip()) for line in lines))
    return "\n".join(shown).removeprefix(".PP\n")


def _options(context: click.Context) -> str:
    records = [
        record for one in context.command.get_params(context) if (record := one.get_help_record(context)) is not None
    ]
    listed = [f".TP\n.B {_text(switches)}\n{_text(' '.join(about.split()))}" for switches, about in records if about]
    return ".SH OPTIONS\n" + "\n".join(listed) if listed else ""


def _commands(context: click.Context, name: str, section: int) -> str:
    listed = [
        f".TP\n.BR {_text(f'{name}-{sub}')} ({section})\n{_text(command.get_short_help_str(limit=200))}"
        for sub, command in _subcommands(context)
    ]
    return ".SH COMMANDS\n" + "\n".join(listed) if listed else ""


def _of_all(context: click.Context) -> Iterator[str]:
    """What docs/cli.md says of every command of ``cantle``: exit codes on each page, the environment on the first."""
    if context.find_root().info_name != "cantle":
        return
    guide = (CHECKOUT / "docs" / "cli.md").read_text(encoding="utf-8")
    yield ".SH EXIT STATUS\n" + _table(guide, "Exit codes")
    if context.parent is None:
        yield ".SH ENVIRONMENT\n" + _table(guide, "Environment")
    else:
        yield ".SH SEE ALSO\n.BR cantle (1)"


def _table(guide: str, heading: str) -> str:
    """The first two columns of the table below a heading."""
    below = guide.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in below.splitlines() if line.startswith("|")
    ]
    return "\n".join(f".TP\n.B {_text(_plain(row[0]))}\n{_text(_plain(row[1]))}" for row in rows[2:])


def _plain(markdown: str) -> str:
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", markdown).replace("`", "")


def _text(line: str) -> str:
    """A line that troff takes for text, whatever it holds."""
    escaped = line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{escaped}" if escaped.startswith((".", "\\(aq")) else escaped


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else CHECKOUT / "build" / "share")
