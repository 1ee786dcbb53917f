"""``cantle host``: machines with an agent."""

from __future__ import annotations

from typing import Any

import click

from cantle.cli.client import connect, segment
from cantle.cli.output import fields, list_options, output_options, print_record, print_rows
from cantle.cli.span import Span

COLUMNS = ("hostname", "state", "devices", "last_seen", "conditions")
WIDE = (*COLUMNS, "agent_version", "generation", "created_at", "problems", "placement")


@click.group(no_args_is_help=True)
def host() -> None:
    """Hosts with an agent."""


@host.command("list")
@click.option("--down", is_flag=True, help="Only hosts that were not heard of lately.")
@list_options
def list_(*, down: bool, fmt: str, chosen: tuple[str, ...], order: str | None, most: int | None) -> None:
    """List hosts: what each is good for now, and what a person should know of it. 'host show' says it in words.

    \b
    Examples:
      cantle host list
      cantle host list -o wide
      cantle host list --down -c hostname -o value
    """
    query = {"up": "false" if down else None, "fields": fields(fmt, chosen, COLUMNS, WIDE, order)}
    rows = (_codes(row, fmt) for row in connect().pages("/v1/hosts", "hosts", query))
    empty = "Every host was heard of lately." if down else "No hosts: no agent has reported yet."
    print_rows(rows, COLUMNS, fmt, wide=WIDE, chosen=chosen, order=order, most=most, empty=empty)


@host.command("show")
@click.argument("host")
@output_options
def show(host: str, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show one host: what a person should know of it, and what its last report complained about.

    \b
    Examples:
      cantle host show gpu1
      cantle host show gpu1 -c problems -o json
    """
    print_record(_sentences(connect().get(f"/v1/hosts/{segment(host)}"), fmt), fmt, chosen=chosen)


def _codes(row: dict[str, Any], fmt: str) -> dict[str, Any]:
    """A row with the codes of its conditions alone, where people read it."""
    if fmt in ("json", "yaml") or "conditions" not in row:
        return row
    return {**row, "conditions": [code for _, code, _ in row["conditions"]]}


def _sentences(row: dict[str, Any], fmt: str) -> dict[str, Any]:
    """A host with its conditions and problems as sentences, where people read it."""
    if fmt in ("json", "yaml"):
        return row
    told = {name: [f"{message} [{code}]" for _, code, message in row[name]] for name in ("conditions", "problems")}
    if fmt != "value" and row["sockets"] is not None:
        told["sockets"] = [
            f"node {node} on {'one that is not known' if socket is None else f'socket {socket}'}"
            for node, socket in row["sockets"].items()
        ]
    return {**row, **told}


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
        if made["agents_url"] is None:
            click.echo(
                "URL is that of the agents' listener, which this server was not told: cantle serve --agents-listen, or "
                "[agents] public_endpoint.",
                err=True,
            )


@host.command("drain")
@click.argument("host")
def drain(host: str) -> None:
    """Lend nothing new on a host, before work on it. What is lent stays lent: 'cantle lease list' says what.

    \b
    Examples:
      cantle host drain gpu1
    """
    connect().post(f"/v1/hosts/{segment(host)}/drain")


@host.command("undrain")
@click.argument("host")
def undrain(host: str) -> None:
    """Lend on a host again.

    \b
    Examples:
      cantle host undrain gpu1
    """
    connect().post(f"/v1/hosts/{segment(host)}/undrain")


@host.command("confirm")
@click.argument("host")
def confirm(host: str) -> None:
    """Say that a host may go on, after you have looked at it.

    For a host that is frozen, because the database was restored from a backup or a copy of the machine spoke for it; and for another
    machine that takes a host's place. 'cantle host show' says which, and what to look at first.

    \b
    Examples:
      cantle host confirm gpu1
    """
    connect().post(f"/v1/hosts/{segment(host)}/confirm")


@host.command("forget")
@click.argument("host")
def forget(host: str) -> None:
    """Take a host out for good. Refused while it lends anything, or while its agent runs.

    Its leases of the past stay in 'cantle lease list --all'. A host of that name that comes back has them again.

    \b
    Examples:
      cantle host forget gpu1
    """
    connect().delete(f"/v1/hosts/{segment(host)}")


@host.command("rename")
@click.argument("host")
@click.argument("name")
def rename(host: str, name: str) -> None:
    """Let a host go by another NAME, with all it has and all that is lent. Stop its agent first, and let it join under the new name.

    \b
    Examples:
      cantle host rename gpu1 gpu1.example.org
    """
    connect().post(f"/v1/hosts/{segment(host)}/rename", {"hostname": name})
    click.echo(f"Now let its agent join as {name}: cantle host invite {name}", err=True)
