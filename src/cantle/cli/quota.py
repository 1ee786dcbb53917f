"""``cantle quota``: how much of a resource class a project may have at once."""

from __future__ import annotations

import click

from cantle.cli.client import connect, segment
from cantle.cli.output import output_options, print_rows

COLUMNS = ("project_id", "resource_class", "limit", "used")


@click.group(no_args_is_help=True)
def quota() -> None:
    """How much of a resource class a project may have at once."""


@quota.command("show")
@click.argument("project", required=False)
@output_options
def show(project: str | None, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show limits, and what is in use with and without one: of PROJECT, else your own, as an administrator everybody's.

    \b
    Examples:
      cantle quota show
      cantle quota show 2641e5a096b24726a35900171e6001ca -o json
    """
    rows = connect().get("/v1/quotas", {"project": project})["quotas"]
    print_rows(rows, COLUMNS, fmt, chosen=chosen, empty="No limits, and nothing in use.")


@quota.command("set")
@click.argument("project")
@click.argument("limits", nargs=-1, required=True, metavar="CLASS=N...")
@output_options
def set_(project: str, limits: tuple[str, ...], fmt: str, chosen: tuple[str, ...]) -> None:
    """Limit what PROJECT may have at once. A slice of a card is one unit; "none" takes a limit away. Nobody loses what he has.

    \b
    Examples:
      cantle quota set 2641e5a096b24726a35900171e6001ca VGPU=8 PGPU=2
      cantle quota set 2641e5a096b24726a35900171e6001ca VGPU=none
    """
    asked = [_limit(text) for text in limits]
    client = connect()
    rows = [
        client.put(f"/v1/quotas/{segment(project)}/{segment(name)}", {"limit": number}, {}) for name, number in asked
    ]
    print_rows(rows, COLUMNS, fmt, chosen=chosen)


def _limit(text: str) -> tuple[str, int | None]:
    name, equals, number = text.partition("=")
    if not equals or not name or not (number == "none" or (number.isascii() and number.isdigit())):
        raise click.UsageError(f"{text!r} is no limit; write CLASS=N, such as VGPU=8, or CLASS=none.")
    return name, None if number == "none" else int(number)
