"""``cantle quota``: how much of a resource class a project may have at once."""

from __future__ import annotations

import click

from cantle.cli.client import connect, segment
from cantle.cli.output import output_options, print_rows, safe
from cantle.model.quota import DEFAULT

COLUMNS = ("project_id", "resource_class", "limit", "used", "inherited")


@click.group(no_args_is_help=True)
def quota() -> None:
    """How much of a resource class a project may have at once."""


@quota.command("show")
@click.argument("project", required=False)
@output_options
def show(project: str | None, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show limits, and what is in use with and without one: of PROJECT, else your own, as an administrator everybody's.

    A limit that is inherited is the default, which has the project "*".

    \b
    Examples:
      cantle quota show
      cantle quota show 2641e5a096b24726a35900171e6001ca -o json
    """
    rows = list(connect().pages("/v1/quotas", "quotas", {"project": project}))
    print_rows(rows, COLUMNS, fmt, chosen=chosen, empty="No limits, and nothing in use.")


@quota.command("set")
@click.argument("project", required=False)
@click.argument("limits", nargs=-1, metavar="CLASS=N...")
@click.option("--default", "is_default", is_flag=True, help="Of each project that has no limit of its own; name none.")
@output_options
def set_(project: str | None, limits: tuple[str, ...], is_default: bool, fmt: str, chosen: tuple[str, ...]) -> None:
    """Limit what PROJECT may have at once. A slice of a card is one unit; "none" takes a limit away. Nobody loses what he has.
    A limit on a class that no card offers is set with a warning: a card may come.

    \b
    Examples:
      cantle quota set 2641e5a096b24726a35900171e6001ca VGPU=8 PGPU=2
      cantle quota set 2641e5a096b24726a35900171e6001ca VGPU=none
      cantle quota set --default VGPU=4
    """
    if is_default and project is not None:
        project, limits = DEFAULT, (project, *limits)
    if project is None or not limits:
        raise click.UsageError("Say for whom and how much: PROJECT CLASS=N, or --default CLASS=N.")
    asked = [_limit(text) for text in limits]
    client = connect()
    rows = [
        client.put(f"/v1/quotas/{segment(project)}/{segment(name)}", {"limit": number}, {}) for name, number in asked
    ]
    for row in rows:
        for words in row.get("warnings", ()):  # a server of before has none
            click.echo(safe(f"cantle: warning: {words}"), err=True)
    print_rows(rows, COLUMNS, fmt, chosen=chosen)


def _limit(text: str) -> tuple[str, int | None]:
    name, equals, number = text.partition("=")
    if not equals or not name or not (number == "none" or (number.isascii() and number.isdigit())):
        raise click.UsageError(f"{text!r} is no limit; write CLASS=N, such as VGPU=8, or CLASS=none.")
    return name, None if number == "none" else int(number)
