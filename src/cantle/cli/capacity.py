"""``cantle capacity``: what can be lent now, and what is lent."""

from __future__ import annotations

import click

from cantle.cli.client import connect
from cantle.cli.output import output_options, print_rows

COLUMNS = ("hostname", "device_address", "resource_class", "total", "used", "free", "reason")
WIDE = ("deployable_uuid", *COLUMNS[:-1], "in_service", "traits", "reason")


@click.command()
@click.option("--host", help="Only this host.")
@click.option("--free", is_flag=True, help="Only where something is free.")
@output_options
def capacity(host: str | None, free: bool, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show what can be lent: units in total, lent and free, for each deployable. Also 'cantle inventory'.

    Where a device is out of service nothing of it is free, and the reason says why.

    \b
    Examples:
      cantle capacity
      cantle capacity --host gpu1 -o wide
      cantle capacity --free -c resource_class -c free -o value
    """
    rows = connect().get("/v1/capacity")["capacity"]
    rows = [row for row in rows if host in (None, row["hostname"]) and (row["free"] > 0 or not free)]
    print_rows(
        rows, COLUMNS, fmt, wide=WIDE, chosen=chosen, empty="Nothing can be lent yet. 'cantle device list' says why."
    )
