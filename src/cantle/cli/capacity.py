"""``cantle capacity``: what can be lent now, and what is lent."""

from __future__ import annotations

import click

from cantle.cli.client import connect
from cantle.cli.output import fields, list_options, print_rows

COLUMNS = ("hostname", "device_address", "resource_class", "total", "used", "free", "reason")
WIDE = ("deployable_uuid", *COLUMNS[:-1], "in_service", "traits", "reason")


@click.command()
@click.option("--host", help="Only this host.")
@click.option("--class", "resource_class", metavar="CLASS", help="Only this resource class, for example VGPU.")
@click.option("--free", is_flag=True, help="Only where something is free.")
@list_options
def capacity(
    *,
    host: str | None,
    resource_class: str | None,
    free: bool,
    fmt: str,
    chosen: tuple[str, ...],
    order: str | None,
    most: int | None,
) -> None:
    """Show what can be lent: units in total, lent and free, for each deployable. Also 'cantle inventory'.

    Where a device is out of service nothing of it is free, and the reason says why.

    \b
    Examples:
      cantle capacity
      cantle capacity --host gpu1 -o wide
      cantle capacity --class VGPU --sort free:desc --limit 3
      cantle capacity --free -c resource_class -c free -o value
    """
    query = {"hostname": host, "resource_class": resource_class, "fields": fields(fmt, chosen, COLUMNS, WIDE, order)}
    rows = (row for row in connect().pages("/v1/capacity", "capacity", query) if row["free"] > 0 or not free)
    empty = "Nothing can be lent yet. 'cantle device list' says why."
    print_rows(rows, COLUMNS, fmt, wide=WIDE, chosen=chosen, order=order, most=most, empty=empty)
