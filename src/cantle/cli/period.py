"""Times as people give them: a date, a moment, a length of time."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., object])
_LENGTH = re.compile(r"(\d{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def period(command: _Command) -> _Command:
    """Give a command ``--from`` and ``--to``: parameters ``since`` and ``until``, as the server takes them, or None."""
    command = click.option("--to", "until", callback=moment, metavar="TIME", help="Only before then.")(command)
    return click.option(
        "--from",
        "since",
        callback=moment,
        metavar="TIME",
        help="Only from then on: 2026-12-01, or 2026-12-01T08:00:00Z.",
    )(command)


def length(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """Callback of an option that takes a length of time: seconds of ``90m``, ``2h``, ``3d``."""
    if text is None:
        return None
    match = _LENGTH.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise click.BadParameter(f"{text!r} is no length of time; write a number and s, m, h, d or w, such as 2h.")
    return int(match[1]) * _SECONDS[match[2]]


def moment(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    """Callback of an option that takes a time: with its offset from UTC; one without is UTC."""
    if text is None:
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time; write it as 2026-12-01 or 2026-12-01T08:00:00Z.") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)).isoformat()
