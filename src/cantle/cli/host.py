"""``cantle host``: machines with an agent."""

from __future__ import annotations

import click

from cantle.cli.client import connect
from cantle.cli.output import output_options, print_rows

COLUMNS = ("hostname", "up", "devices", "last_seen")
WIDE = (*COLUMNS, "generation", "created_at", "problems")


@click.group(no_args_is_help=True)
def host() -> None:
    """Hosts with an agent."""


@host.command("list")
@output_options
def list_(fmt: str, chosen: tuple[str, ...]) -> None:
    """List hosts: whether each was heard of lately, and what its last report complained about.

    \b
    Examples:
      cantle host list
      cantle host list -o wide
    """
    rows = connect().get("/v1/hosts")["hosts"]
    print_rows(rows, COLUMNS, fmt, wide=WIDE, chosen=chosen, empty="No hosts: no agent has reported yet.")
