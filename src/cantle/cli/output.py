"""What a command prints: rows or one record, as a table for people or as JSON, YAML and plain values for programs.

Standard output carries the answer and nothing else; progress and complaints go to standard error. Nothing in the data
is interpreted: control characters, terminal escapes and direction marks are shown as escapes (``\\x1b``), so the name of
a device or a workload cannot repaint a terminal or pretend to be another one.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from itertools import chain, islice
from typing import IO, Any, TypeVar

import click

from cantle.cli.table import BLOCK, print_table

FORMATS = ("table", "wide", "json", "yaml", "value")

Row = Mapping[str, object]
_Command = TypeVar("_Command", bound=Callable[..., object])

#: Control characters (C0, DEL, C1), line separators, zero-width and direction marks, lone surrogates, byte order mark.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_UNSAFE_INSIDE = re.compile(r"(?!\n)" + _UNSAFE.pattern)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def output_options(command: _Command) -> _Command:
    """Give a command ``-o/--output`` and ``-c/--column``: its parameters ``fmt`` (str) and ``chosen`` (tuple of str)."""
    command = click.option(
        "-c",
        "--column",
        "chosen",
        multiple=True,
        metavar="NAME",
        help="Print only this column; repeat for more, in this order.",
    )(command)
    return click.option(
        "-o",
        "--output",
        "fmt",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How to print the answer.",
    )(command)


def list_options(command: _Command) -> _Command:
    """`output_options`, and ``--sort`` and ``--limit``: parameters ``order`` (str or None) and ``most`` (int or None)."""
    command = output_options(command)
    command = click.option(
        "--limit", "most", type=click.IntRange(min=1), metavar="N", help="Print at most so many rows."
    )(command)
    return click.option(
        "--sort",
        "order",
        metavar="NAME[:desc]",
        help="Sort by this column. All rows are read before the first is printed.",
    )(command)


def fields(
    fmt: str, chosen: Sequence[str], columns: Sequence[str], wide: Sequence[str], order: str | None = None
) -> str | None:
    """What to ask the server for where not all is printed: the value of its ``fields=``; None for everything."""
    if fmt in ("json", "yaml") or chosen or order:
        return None
    return ",".join(wide if fmt == "wide" else columns)


def unmatched(what: str, otherwise: str, *filters: object) -> str:
    """What an empty list says: where something was asked for, not that there is nothing at all.

    :param what: the things in plural: ``devices``.
    """
    return f"No {what} match that." if any(filters) else otherwise


def print_rows(
    rows: Iterable[Row],
    columns: Sequence[str],
    fmt: str,
    *,
    wide: Sequence[str] | None = None,
    rare: str | None = None,
    chosen: Sequence[str] | None = None,
    order: str | None = None,
    most: int | None = None,
    empty: str | None = None,
    out: IO[str] | None = None,
) -> None:
    """Print rows of equal kind, as they come: a list of any length takes no more memory than its first thousand rows.

    ``table`` and ``value`` print ``columns``, ``wide`` prints the columns ``wide``; ``json`` and ``yaml`` print every
    field of a row. ``chosen`` names the fields to print instead, in any format. ``value`` has a tab between fields and no
    header.

    :param fmt: one of FORMATS.
    :param rare: a field that ``table`` prints too where one of the first thousand rows has it.
    :param order: the field to sort by, ``:desc`` behind it for the other way round; ``most``: how many rows at most.
    :param empty: said on standard error when a table has no rows ("No leases.").
    :raises click.UsageError: ``chosen`` or ``order`` names a field that the rows do not have.
    """
    out = out or sys.stdout
    left = iter(rows) if order is None else iter(_sorted(list(rows), order))
    if most is not None:
        left = islice(left, min(most, sys.maxsize))
    first = list(islice(left, BLOCK))
    if rare is not None and fmt == "table" and any(row.get(rare) for row in first):
        columns = (*columns, rare)
    wanted = _columns(first, columns, fmt, wide, chosen)
    found = chain(first, left)
    if fmt in ("json", "yaml"):
        _print_list((_pick(row, wanted) if chosen else row for row in found), fmt, out)
    elif fmt == "value":
        for row in found:
            out.write("\t".join(text(row.get(name), machine=True) for name in wanted) + "\n")
    else:
        if not first and empty:
            click.echo(empty, err=True)
        print_table([name.upper() for name in wanted], ([text(row.get(name)) for name in wanted] for row in found), out)


def print_record(
    record: Row,
    fmt: str,
    *,
    columns: Sequence[str] | None = None,
    chosen: Sequence[str] | None = None,
    out: IO[str] | None = None,
) -> None:
    """Print one thing: a line for each field in a table, an object in ``json`` and ``yaml``, a line for each ``value``.

    :param columns: the fields of a table and of ``value``, in order; all by default. The other formats have all.
    :raises click.UsageError: ``chosen`` names a field that the record does not have.
    """
    out = out or sys.stdout
    every = list(record)
    wanted = _columns([record], columns or every, fmt, every, chosen)
    if fmt in ("json", "yaml"):
        out.write(_document(_pick(record, wanted) if chosen else dict(record), fmt))
    elif fmt == "value":
        for name in wanted:
            out.write(text(record.get(name), machine=True) + "\n")
    else:
        print_table(["FIELD", "VALUE"], [[name, text(record.get(name))] for name in wanted], out)


def text(value: object, *, machine: bool = False) -> str:
    """One value as one line of safe text. ``machine`` is the form of ``-o value``: nothing stays empty, true is ``true``."""
    if value is None or (isinstance(value, (str, Mapping, list, tuple, set, frozenset)) and not value):
        return "" if machine else "-"
    if isinstance(value, bool):
        return str(value).lower() if machine else ("yes" if value else "no")
    if isinstance(value, Mapping):
        pairs = (f"{text(key)}={text(item, machine=machine)}" for key, item in value.items())
        return ("," if machine else ", ").join(pairs)
    if isinstance(value, (list, tuple, set, frozenset)):
        nested = any(isinstance(item, Mapping) for item in value)
        separator = ";" if nested else ","
        return (separator if machine else separator + " ").join(text(item, machine=machine) for item in value)
    return safe(str(plain(value)))


def safe(line: str) -> str:
    """The text with every character that a terminal might obey shown as an escape."""
    return _UNSAFE.sub(lambda found: _SHORT.get(found.group(), _escape(found.group())), line)


def plain(value: object) -> Any:
    """The value made of dict, list, str, int, float, bool and None only, as JSON and YAML need it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (dt.datetime, dt.date)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _columns(
    rows: Sequence[Row], columns: Sequence[str], fmt: str, wide: Sequence[str] | None, chosen: Sequence[str] | None
) -> list[str]:
    """The fields to print, in order. Without a row it is not known which there are, so any is good then."""
    if not chosen:
        return list(wide) if fmt == "wide" and wide else list(columns)
    if not rows:
        return [name.lower() for name in chosen]
    known = list(dict.fromkeys([*columns, *(wide or ()), *(name for row in rows[:1] for name in row)]))
    by_name = {name.lower(): name for name in known}
    for name in chosen:
        if name.lower() not in by_name:
            raise click.UsageError(f"There is no column {safe(name)!r}. The columns are: {', '.join(known)}.")
    return [by_name[name.lower()] for name in chosen]


def _pick(row: Row, names: Sequence[str]) -> dict[str, object]:
    return {name: row.get(name) for name in names}


def _sorted(rows: list[Row], order: str) -> list[Row]:
    """By one field: numbers as such, all else as it is printed. What a row does not have comes last."""
    name, _, direction = order.partition(":")
    if direction not in ("", "asc", "desc"):
        raise click.UsageError(f"--sort {safe(order)!r}: behind the column's name stands nothing, :asc or :desc.")
    (wanted,) = _columns(rows, (), "value", None, [name])
    having = [row for row in rows if row.get(wanted) is not None]

    def key(row: Row) -> tuple[float, str]:
        value = row[wanted]
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return (float(value), "") if is_number else (0.0, text(value))  # type: ignore[arg-type]

    having.sort(key=key, reverse=direction == "desc")
    return [*having, *(row for row in rows if row.get(wanted) is None)]


def _print_list(values: Iterable[object], fmt: str, out: IO[str]) -> None:
    """A JSON or YAML list, one value after the other."""
    before = "[\n" if fmt == "json" else ""
    count = 0
    for value in values:
        if fmt == "json":
            out.write(before + _indented(_document(value, fmt)))
            before = ",\n"
        else:
            out.write(_document([value], fmt))
        count += 1
    if count == 0:
        out.write("[]\n")
    elif fmt == "json":
        out.write("\n]\n")


def _indented(document: str) -> str:
    return "  " + document.rstrip("\n").replace("\n", "\n  ")


def _document(value: object, fmt: str) -> str:
    """JSON or YAML. What a terminal might obey is written as the format's own escapes, so a program reads it back."""
    if fmt == "json":
        import json  # noqa: PLC0415 - only what is asked for is loaded: start-up time

        document = json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n"
        return _UNSAFE_INSIDE.sub(lambda found: f"\\u{ord(found.group()):04x}", document)
    from cantle.cli import yaml_document  # noqa: PLC0415

    return yaml_document.dump(plain(value), ascii_only=_UNSAFE.search(_strings(value)) is not None)


def _strings(value: object) -> str:
    """All text inside a value, to look for unsafe characters."""
    found = plain(value)
    if isinstance(found, dict):
        return "".join(_strings(part) for pair in found.items() for part in pair)
    if isinstance(found, list):
        return "".join(map(_strings, found))
    return found if isinstance(found, str) else ""
