"""``cantle explain-error``: the paragraph of docs/errors that belongs to a code."""

from __future__ import annotations

import difflib
from importlib import resources
from pathlib import Path

import click

from cantle import errors


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
    click.echo(f"{wanted}\n\n{known[wanted]}")


def paragraphs() -> dict[str, str]:
    """Text by code, of every heading ``## code`` in docs/errors/*.md, which travel inside the package."""
    found: dict[str, str] = {}
    for name, content in _pages():
        if name.endswith(".md") and name != "README.md":
            for section in content.split("\n## ")[1:]:
                heading, _, body = section.partition("\n")
                found[heading.strip()] = body.strip()
    return found


def _pages() -> list[tuple[str, str]]:
    """Name and content of each page: from the installed package, or from the checkout of an editable install."""
    packaged = resources.files("cantle") / "cli" / "errors"
    if packaged.is_dir():
        return [(page.name, page.read_text("utf-8")) for page in packaged.iterdir()]
    checkout = Path(__file__).resolve().parents[3] / "docs" / "errors"
    return [(page.name, page.read_text("utf-8")) for page in sorted(checkout.glob("*.md"))]
