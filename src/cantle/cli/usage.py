"""``cantle usage``: unit-hours by project and class."""

from __future__ import annotations

import click

from cantle.cli.client import connect
from cantle.cli.output import output_options, print_rows
from cantle.cli.period import period

COLUMNS = ("project_id", "resource_class", "hours", "loans")


@click.command()
@period
@click.option("--project", metavar="ID", help="Only of this project.")
@output_options
def usage(*, since: str | None, until: str | None, project: str | None, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show unit-hours by project and class, from being claimed to being back: two units for an hour are two.

    Without --from it begins with this month, without --to it ends now. It goes as far back as the audit log is kept.

    \b
    Examples:
      cantle usage
      cantle usage --from 2026-11-01 --to 2026-12-01 -o json
    """
    rows = connect().get("/v1/usage", {"since": since, "until": until, "project": project})["usage"]
    print_rows(rows, COLUMNS, fmt, chosen=chosen, empty="Nothing was in use.")
