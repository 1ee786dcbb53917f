"""Sentences for people: folded between words where they go to a terminal, as they are where a program reads them."""

from __future__ import annotations

import shutil
import textwrap
from typing import IO

#: Longer lines are hard to read, however wide the window is.
WIDEST = 100

#: What begins a line that is laid out and no running text: lists, tables, code, headings.
_LAID_OUT = ("-", "|", "`", "#", " ", ">")


def folded(text: str, out: IO[str] | None) -> str:
    """Each line of the text folded to the window of a terminal, with the line's own indentation."""
    if out is None or not out.isatty():
        return text
    width = min(shutil.get_terminal_size().columns, WIDEST)
    return "\n".join(_fold(line, width) for line in text.split("\n"))


def refilled(text: str, out: IO[str] | None) -> str:
    """Paragraphs of Markdown filled anew for the window of a terminal; what is laid out stays as it is."""
    if out is None or not out.isatty():
        return text
    return "\n\n".join(
        folded(
            paragraph
            if any(line.startswith(_LAID_OUT) for line in paragraph.split("\n"))
            else " ".join(paragraph.split()),
            out,
        )
        for paragraph in text.split("\n\n")
    )


def _fold(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    lines = textwrap.wrap(
        line.strip(),
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)
