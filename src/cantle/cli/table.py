"""Tables for people, printed block by block: a list of any length is begun at once and takes no more memory than one block.

The first block decides how wide the columns are. In a pipe a later, longer value is not cut off; it pushes the rest of its row.

On a terminal a row that is too wide is folded between words, and within words that are longer than any id. What is copied from there stays
in one piece: uuids, times and addresses in every column, and every word of the last one (a token), which may leave the window. Where that
leaves too little room for all columns, rows are printed as in a pipe, and the terminal breaks them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import IO

#: Rows of a block: as many as a server sends at once.
BLOCK = 1000
#: On a terminal fewer, so that something is seen soon.
TERMINAL_BLOCK = 200

#: Between two columns.
GAP = "  "

#: What a column that is folded keeps at least, where it has that much.
_NARROWEST = 8
#: Words up to this long are kept in one piece while all columns have room: a uuid's length.
_WORD = 36
_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TIME = r"\d{4}-\d\d-\d\dT[0-9:.]+\S*"
_ADDRESS = r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_COPIED = re.compile(rf"({_UUID}|{_TIME}|{_ADDRESS})\W*")


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], out: IO[str]) -> None:
    """Folded to the window on a terminal; elsewhere one line a row and nothing cut off."""
    if out.isatty():
        _print_for_terminal(headers, iter(rows), out)
    else:
        left = iter(rows)
        first = list(islice(left, BLOCK))
        widths = _widths([headers, *first])
        for row in chain([headers], first, left):
            out.write(_line(row, widths) + "\n")


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(cell + " " * (width - _size(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(_size, column)) for column in zip(*rows, strict=True)]


def _size(text: str) -> int:
    """How many columns of a terminal it takes: Chinese and Japanese letters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - start-up time

    return cell_len(text)


def _print_for_terminal(headers: Sequence[str], rows: Iterator[Sequence[str]], out: IO[str]) -> None:
    """A block that fits is printed as it is; only one that must be folded pays for loading what folds."""
    window = shutil.get_terminal_size().columns
    first = list(islice(rows, TERMINAL_BLOCK))
    natural = _widths([headers, *first])
    widths = _narrowed(headers, first, natural, window)
    out.write(_bold(_line(headers, widths or natural)) + "\n")
    block = first
    while block:
        for row in block:
            lines = [row] if widths is None or _fits(row, widths) else _folded(row, widths)
            out.writelines(_line(line, widths or natural) + "\n" for line in lines)
        out.flush()
        block = list(islice(rows, TERMINAL_BLOCK))


def _narrowed(
    headers: Sequence[str], rows: Sequence[Sequence[str]], natural: Sequence[int], window: int
) -> list[int] | None:
    """Widths for this window; None when it is too narrow to fold into."""
    cells = list(zip(*rows, strict=True)) or [()] * len(headers)
    whole = [_longest(words, _WORD) for words in map(_words, cells)]
    copied = [_longest((word for word in _words(one) if _COPIED.fullmatch(word)), _WORD) for one in cells[:-1]]
    for least in (whole, [*copied, 0]):
        floors = [
            min(width, max(_NARROWEST, len(header), word))
            for width, header, word in zip(natural, headers, least, strict=True)
        ]
        found = fitted(natural, floors, window)
        if found is not None:
            return found
    return None


def _words(cells: Iterable[str]) -> Iterator[str]:
    return (word for cell in cells for word in cell.split())


def _longest(words: Iterable[str], most: int) -> int:
    return max((size for size in map(_size, words) if size <= most), default=0)


def fitted(widths: Sequence[int], floors: Sequence[int], window: int) -> list[int] | None:
    """Widths that fit into so many characters: the widest columns give way, none below its floor. None when that is too much."""
    room = window - len(GAP) * (len(widths) - 1)
    if sum(floors) > room:
        return None
    found = [max(floor, min(width, window)) for width, floor in zip(widths, floors, strict=True)]
    while sum(found) > room:
        widest = max((width, place) for place, width in enumerate(found) if width > floors[place])[1]
        found[widest] -= 1
    return found


def _fits(row: Sequence[str], widths: Sequence[int]) -> bool:
    return all(_size(cell) <= width for cell, width in zip(row, widths, strict=True))


def _folded(row: Sequence[str], widths: Sequence[int]) -> Iterator[Sequence[str]]:
    """The lines of one row; a word of the last column is never broken."""
    columns = [_wrapped(cell, width) for cell, width in zip(row[:-1], widths, strict=False)]
    return zip_longest(*columns, _wrapped(row[-1], widths[-1], whole=True), fillvalue="")


def _wrapped(cell: str, width: int, *, whole: bool = False) -> list[str]:
    lines, line = [], ""
    for word in cell.split():
        for part in [word] if whole else _pieces(word, width):
            if line and _size(line) + 1 + _size(part) > width:
                lines.append(line)
                line = ""
            line = f"{line} {part}" if line else part
    return [*lines, line]


def _pieces(word: str, width: int) -> list[str]:
    if _size(word) <= width:
        return [word]
    from rich.cells import chop_cells  # noqa: PLC0415 - start-up time

    return chop_cells(word, width)


def _coloured() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def _bold(line: str) -> str:
    return f"\x1b[1m{line}\x1b[0m" if _coloured() else line
