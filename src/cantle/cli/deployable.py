"""``cantle deployable``: the parts of cards that are offered together, each one resource provider."""

from __future__ import annotations

import json
from typing import Any

import click

from cantle.cli.client import connect, segment
from cantle.cli.output import output_options, print_record, print_rows

COLUMNS = ("uuid", "name", "num_accelerators")
WIDE = ("uuid", "name", "num_accelerators", "rp_uuid", "driver_name", "device_id", "attributes_list")


@click.group(no_args_is_help=True)
def deployable() -> None:
    """The parts of cards that are offered together."""


@deployable.command("list")
@output_options
def list_(fmt: str, chosen: tuple[str, ...]) -> None:
    """List deployables: name (host and device address), and how many units the host can deliver.

    \b
    Examples:
      cantle deployable list
      cantle deployable list -o json
    """
    rows = [_read(row) for row in connect().get("/v2/deployables")["deployables"]]
    print_rows(rows, COLUMNS, fmt, wide=WIDE, chosen=chosen, empty="No deployables: no host offers anything yet.")


@deployable.command("show")
@click.argument("uuid")
@output_options
def show(uuid: str, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show one deployable, with its resource class and traits.

    \b
    Example:
      cantle deployable show 6a2b1f0e-8f1c-4f4e-9d3a-0a4c6b1d2e3f
    """
    record = _read(connect().get(f"/v2/deployables/{segment(uuid)}"))
    print_record(record, fmt, columns=[name for name in record if name != "links"], chosen=chosen)


def _read(row: dict[str, Any]) -> dict[str, Any]:
    """The API's row with its attributes unpacked: they travel as JSON text inside JSON (contract section 1.5)."""
    packed = row.get("attributes_list")
    return {**row, "attributes_list": json.loads(packed)} if isinstance(packed, str) else row
