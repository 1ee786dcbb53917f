"""``cantle host``: machines with an agent."""

from __future__ import annotations

import click

from cantle.cli.client import connect, segment
from cantle.cli.output import fields, list_options, output_options, print_record, print_rows
from cantle.cli.span import Span

COLUMNS = ("hostname", "up", "devices", "last_seen")
WIDE = (*COLUMNS, "generation", "created_at", "problems")


@click.group(no_args_is_help=True)
def host() -> None:
    """Hosts with an agent."""


@host.command("list")
@click.option("--down", is_flag=True, help="Only hosts that were not heard of lately.")
@list_options
def list_(*, down: bool, fmt: str, chosen: tuple[str, ...], order: str | None, most: int | None) -> None:
    """List hosts: whether each was heard of lately, and what its last report complained about.

    \b
    Examples:
      cantle host list
      cantle host list -o wide
      cantle host list --down -c hostname -o value
    """
    query = {"up": "false" if down else None, "fields": fields(fmt, chosen, COLUMNS, WIDE, order)}
    rows = connect().pages("/v1/hosts", "hosts", query)
    empty = "Every host was heard of lately." if down else "No hosts: no agent has reported yet."
    print_rows(rows, COLUMNS, fmt, wide=WIDE, chosen=chosen, order=order, most=most, empty=empty)


@host.command("show")
@click.argument("host")
@output_options
def show(host: str, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show one host, with what its last report complained about.

    \b
    Examples:
      cantle host show gpu1
      cantle host show gpu1 -c problems -o json
    """
    print_record(connect().get(f"/v1/hosts/{segment(host)}"), fmt, chosen=chosen)


@host.command("invite")
@click.argument("name")
@click.option(
    "--expires-in", type=Span(), metavar="TIME", help="How long the code is good, as 5m or 2h. [default: 15m]"
)
@output_options
def invite(name: str, expires_in: float | None, fmt: str, chosen: tuple[str, ...]) -> None:
    """Make a code with which one machine may join as the host NAME, once. It is shown this once.

    The machine that joins becomes the host: a token that another had for that name is revoked then, and what the server knows of the
    host stays.

    \b
    Examples:
      cantle host invite gpu1
      cantle host invite gpu1 --expires-in 2h -c code -o value
    """
    body = {} if expires_in is None else {"expires_in": expires_in}
    made = connect().post(f"/v1/hosts/{segment(name)}/invite", body)
    print_record(made, fmt, chosen=chosen)
    if fmt in ("table", "wide") and not chosen:
        pinned = f" --ca-fingerprint {made['ca_fingerprint']}" if made["ca_fingerprint"] else ""
        click.echo("On that machine, as the user the agent runs as:", err=True)
        click.echo(f"  cantle agent join {made['agents_url'] or 'URL'} --code {made['code']}{pinned}", err=True)
