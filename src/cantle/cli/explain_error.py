"""``cantle explain-error``: the paragraph of docs/errors that belongs to a code."""

from __future__ import annotations

import difflib
import sys
from importlib import resources
from pathlib import Path

import click

from cantle import errors
from cantle.cli.prose import refilled


@click.command("explain-error")
@click.argument("code", required=False)
def explain_error(code: str | None) -> None:
    """Explain an error code: what happened, why, and what to do. Without a code, list them all.

    \b
    Examples:
      cantle explain-error server-unavailable
      cantle explain-error
    """
    known = paragraphs()
    if code is None:
        click.echo("\n".join(sorted(known)))
        return
    wanted = code.strip("[] ").lower()
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, n=3)
        hint = f" Did you mean {' or '.join(near)}?" if near else " 'cantle explain-error' lists them."
        raise errors.NotFound("no-such-error-code", f"There is no error code {wanted!r}.{hint}")
    click.echo(refilled(f"{wanted}\n\n{known[wanted]}", sys.stdout))


def paragraphs() -> dict[str, str]:
    """Text by code, of every heading ``## code`` in docs/errors/*.md, which travel inside the package."""
    sections = [section.partition("\n") for page in _pages() for section in page.split("\n## ")[1:]]
    return {heading.strip(): body.strip() for heading, _, body in sections}


def _pages() -> list[str]:
    """The pages: from the installed package, or from the checkout of an editable install."""
    packaged = resources.files("cantle") / "cli" / "errors"
    if packaged.is_dir():
        return [page.read_text("utf-8") for page in packaged.iterdir() if page.name.endswith(".md")]
    checkout = Path(__file__).resolve().parents[3] / "docs" / "errors"
    return [page.read_text("utf-8") for page in sorted(checkout.glob("*.md"))]
