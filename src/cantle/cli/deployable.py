"""``cantle deployable``: the parts of cards that are offered together, each one resource provider."""

from __future__ import annotations

import click

from cantle.cli.client import connect, segment
from cantle.cli.output import fields, list_options, output_options, print_record, print_rows, unmatched

COLUMNS = ("uuid", "hostname", "device_address", "resource_class", "total", "used", "reason")
WIDE = ("uuid", "name", *COLUMNS[1:-1], "in_service", "rp_uuid", "driver_name", "traits", "reason")


@click.group(no_args_is_help=True)
def deployable() -> None:
    """The parts of cards that are offered together."""


@deployable.command("list")
@click.option("--host", help="Only deployables of this host.")
@click.option("--class", "resource_class", metavar="CLASS", help="Only those of this resource class, for example VGPU.")
@list_options
def list_(
    *,
    host: str | None,
    resource_class: str | None,
    fmt: str,
    chosen: tuple[str, ...],
    order: str | None,
    most: int | None,
) -> None:
    """List deployables: where each is, its resource class, and how many units it has and has lent.

    \b
    Examples:
      cantle deployable list
      cantle deployable list --class VGPU -o json
    """
    query = {"hostname": host, "resource_class": resource_class, "fields": fields(fmt, chosen, COLUMNS, WIDE, order)}
    rows = connect().pages("/v1/deployables", "deployables", query)
    empty = unmatched("deployables", "No deployables: no host offers anything yet.", host, resource_class)
    print_rows(rows, COLUMNS, fmt, wide=WIDE, chosen=chosen, order=order, most=most, empty=empty)


@deployable.command("show")
@click.argument("uuid")
@output_options
def show(uuid: str, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show one deployable, with its resource class and traits.

    \b
    Example:
      cantle deployable show 6a2b1f0e-8f1c-4f4e-9d3a-0a4c6b1d2e3f
    """
    print_record(connect().get(f"/v1/deployables/{segment(uuid)}"), fmt, chosen=chosen)
