"""``cantle pool``: free PCI devices, counted."""

from __future__ import annotations

import click

from cantle.cli.client import connect
from cantle.cli.output import list_options, print_rows

COLUMNS = ("hostname", "vendor_id", "product_id", "numa_node", "dev_type", "tags", "count")


@click.group(no_args_is_help=True)
def pool() -> None:
    """Pools: free PCI devices per vendor, product, NUMA node and tags."""


@pool.command("list")
@click.option("--host", help="Only this host.")
@list_options
def list_(*, host: str | None, fmt: str, chosen: tuple[str, ...], order: str | None, most: int | None) -> None:
    """List the pools of PCI devices that can be given to guests as they are and are free now.

    \b
    Examples:
      cantle pool list
      cantle pool list --host gpu1 -o json
    """
    rows = connect().get("/v1/pools", {"hostname": host})["pools"]
    print_rows(rows, COLUMNS, fmt, chosen=chosen, order=order, most=most, empty="No free PCI devices.")
