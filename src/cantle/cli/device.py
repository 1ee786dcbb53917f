"""``cantle device``: cards, as their hosts report them."""

from __future__ import annotations

from typing import Any

import click

from cantle import errors
from cantle.cli.client import connect
from cantle.cli.output import output_options, print_record, print_rows

COLUMNS = ("hostname", "address", "model", "mode", "health", "reason")
WIDE = (
    "uuid",
    "hostname",
    "address",
    "type",
    "vendor_id",
    "product_id",
    "model",
    "mode",
    "health",
    "status",
    "numa_node",
    "capabilities",
    "reason",
)


@click.group(no_args_is_help=True)
def device() -> None:
    """Cards, as their hosts report them."""


@device.command("list")
@click.option("--host", help="Only cards of this host.")
@click.option("--type", "kind", help="Only cards of this type, for example GPU.")
@output_options
def list_(host: str | None, kind: str | None, fmt: str, chosen: tuple[str, ...]) -> None:
    """List cards, lendable or not, with the reason where one is not.

    \b
    Examples:
      cantle device list
      cantle device list --host gpu1 -o wide
      cantle device list -c uuid -c address -o value
    """
    rows = connect().get("/v1/devices", {"hostname": host, "type": kind})["devices"]
    print_rows(rows, COLUMNS, fmt, wide=WIDE, chosen=chosen, empty="No devices: no host has reported one yet.")


@device.command("show")
@click.argument("device")
@output_options
def show(device: str, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show one card, by uuid or by address. HOST/ADDRESS tells equal addresses of several hosts apart.

    \b
    Examples:
      cantle device show 0000:af:00.0
      cantle device show gpu1/0000:af:00.0 -o json
    """
    print_record(_find(connect().get("/v1/devices")["devices"], device), fmt, chosen=chosen)


def _find(devices: list[dict[str, Any]], wanted: str) -> dict[str, Any]:
    """The one card that a uuid, an address or HOST/ADDRESS names."""
    host, _, address = wanted.rpartition("/")
    found = [
        row
        for row in devices
        if row["uuid"] == wanted or (row["address"] == address.lower() and host in ("", row["hostname"]))
    ]
    if not found:
        raise errors.NotFound(
            "device-not-found", f"There is no device {wanted!r}. 'cantle device list' shows them all.", device=wanted
        )
    if len(found) > 1:
        names = ", ".join(f"{row['hostname']}/{row['address']}" for row in found)
        raise errors.Conflict("device-ambiguous", f"{wanted!r} is on more than one host: say which, as one of {names}.")
    return found[0]
