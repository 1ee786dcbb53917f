"""Tables for people, printed block by block: a list of any length is begun at once and takes no more memory than one block.

The first block decides how wide the columns are. In a pipe a later, longer value is not cut off; it pushes the rest of its row.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import IO

#: Rows of a block: as many as a server sends at once.
BLOCK = 1000
#: On a terminal fewer, so that something is seen soon.
TERMINAL_BLOCK = 200

#: Between two columns.
GAP = "  "

#: What a column that is folded keeps at least.
_NARROWEST = 8


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], out: IO[str]) -> None:
    """Folded to the window on a terminal; elsewhere one line a row and nothing cut off."""
    if out.isatty():
        _print_for_terminal(headers, iter(rows), out)
    else:
        left = iter(rows)
        first = list(islice(left, BLOCK))
        _print_plain(headers, chain(first, left), _widths([headers, *first]), out)


def _print_plain(headers: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int], out: IO[str]) -> None:
    for row in chain([headers], rows):
        out.write(_line(row, widths) + "\n")


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _print_for_terminal(headers: Sequence[str], rows: Iterator[Sequence[str]], out: IO[str]) -> None:
    """A block that fits is printed as it is; one that must be folded by rich, whose loading a short list does not pay for."""
    window = shutil.get_terminal_size().columns
    first = list(islice(rows, TERMINAL_BLOCK))
    widths = fitted(_widths([headers, *first]), window)
    block, heading = first, True
    while block or heading:
        if _fits([headers, *block], widths):
            if heading:
                out.write(_bold(_line(headers, widths)) + "\n")
            for row in block:
                out.write(_line(row, widths) + "\n")
        else:
            _print_folded(headers if heading else None, block, widths, window, out)
        out.flush()
        block, heading = list(islice(rows, TERMINAL_BLOCK)), False


def fitted(widths: Sequence[int], window: int) -> list[int]:
    """Widths that fit into so many characters: the widest columns give way, none below what can be read."""
    found = [min(width, window) for width in widths]
    while sum(found) + len(GAP) * (len(found) - 1) > window and (widest := max(found)) > _NARROWEST:
        found[found.index(widest)] -= 1
    return found


def _fits(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> bool:
    """Whether no cell needs folding. What is not ASCII may be wider than it is long, and is left to rich."""
    return all(cell.isascii() and len(cell) <= width for row in rows for cell, width in zip(row, widths, strict=True))


def _coloured() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def _bold(line: str) -> str:
    return f"\x1b[1m{line}\x1b[0m" if _coloured() else line


def _print_folded(
    headers: Sequence[str] | None, rows: Sequence[Sequence[str]], widths: Sequence[int], window: int, out: IO[str]
) -> None:
    from rich.console import Console  # noqa: PLC0415 - start-up time
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(
        file=out,
        width=window,
        color_system="auto" if _coloured() else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    table = Table(
        box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="bold", show_header=headers is not None
    )
    for place, width in enumerate(widths):
        last = place + 1 == len(widths)
        table.add_column(headers[place] if headers else "", overflow="fold", width=None if last else width)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
