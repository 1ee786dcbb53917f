"""``cantle host``: machines with an agent."""

from __future__ import annotations

import click

from cantle.cli.client import connect
from cantle.cli.output import output_options, print_rows


@click.group(no_args_is_help=True)
def host() -> None:
    """Hosts with an agent."""


@host.command("list")
@output_options
def list_(fmt: str, chosen: tuple[str, ...]) -> None:
    """List hosts, and when each was last heard of.

    \b
    Examples:
      cantle host list
      cantle host list -o json
    """
    rows = connect().get("/v1/hosts")["hosts"]
    columns = [name for name in (rows[0] if rows else ("hostname",)) if name not in ("id", "problems", "agent_start")]
    print_rows(rows, columns, fmt, chosen=chosen, empty="No hosts: no agent has reported yet.")
