"""``cantle token``: who may call, where there is no Keystone."""

from __future__ import annotations

import click

from cantle.cli.client import connect, segment
from cantle.cli.output import list_options, output_options, print_record, print_rows
from cantle.cli.span import Span

#: As `cantle.model.token.Role`, without those of hosts: ``cantle host invite`` makes them. Not imported: start-up time.
ROLES = ("admin", "manager", "member", "reader", "service")

COLUMNS = ("uuid", "name", "role", "state", "project_id", "hostname", "expires_at")
WIDE = (*COLUMNS, "last_used_at", "created_by", "created_at", "revoked_at")


@click.group(no_args_is_help=True)
def token() -> None:
    """Tokens: who may call, where there is no Keystone."""


@token.command("create")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True, help="What it is for; one role a token.")
@click.option("--project", metavar="ID", help="The project it is for. [default: the one of those who have none]")
@click.option(
    "--expires-in", type=Span(), metavar="TIME", help="When it ends by itself, as 12h or 30d. [default: never]"
)
@output_options
def create(
    *, name: str, role: str, project: str | None, expires_in: float | None, fmt: str, chosen: tuple[str, ...]
) -> None:
    """Make a token for NAME: a person or a program. Its text is shown this once; the server keeps a hash of it.

    \b
    Examples:
      cantle token create alice --role member --project lab
      cantle token create nightly --role reader --expires-in 30d -c token -o value
    """
    body = {"name": name, "role": role, "project_id": project, "expires_in": expires_in}
    made = connect().post("/v1/tokens", {key: value for key, value in body.items() if value is not None})
    print_record({"token": made.pop("token"), **made}, fmt, chosen=chosen)
    if fmt in ("table", "wide"):
        click.echo(
            "The token is shown this once. Whoever has it is this caller: keep it where only he can read it.", err=True
        )


@token.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that are expired or revoked.")
@list_options
def list_(*, everything: bool, fmt: str, chosen: tuple[str, ...], order: str | None, most: int | None) -> None:
    """List tokens, those of hosts and invitations included. Their texts are not kept.

    \b
    Examples:
      cantle token list
      cantle token list --all -o wide
    """
    rows = connect().pages("/v1/tokens", "tokens", {"include_ended": "true" if everything else None})
    print_rows(rows, COLUMNS, fmt, wide=WIDE, chosen=chosen, order=order, most=most, empty="No tokens.")


@token.command("revoke")
@click.argument("uuid")
def revoke(uuid: str) -> None:
    """Take a token back. From now on it is refused; taking it back twice is no error.

    UUID is shown by 'cantle token list', and is the part of the token between its two underscores.

    \b
    Examples:
      cantle token revoke 2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1
    """
    connect().delete(f"/v1/tokens/{segment(uuid)}")
