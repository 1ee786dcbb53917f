"""``cantle device``: cards, as their hosts report them."""

from __future__ import annotations

import click

from cantle.cli.card import locate, readable
from cantle.cli.client import connect, segment
from cantle.cli.intent import intent
from cantle.cli.output import fields, list_options, output_options, print_record, print_rows, unmatched
from cantle.cli.set_mode import set_mode

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
    "isolation",
    "capabilities",
    "reason",
    "intent_state",
    "out_of_service",
)


@click.group(no_args_is_help=True)
def device() -> None:
    """Cards, as their hosts report them."""


@device.command("list")
@click.option("--host", help="Only cards of this host.")
@click.option("--type", "kind", help="Only cards of this type, for example GPU.")
@click.option("--mode", help="Only cards in this mode, for example mdev.")
@click.option("--health", help="Only cards in this health, for example failed.")
@list_options
def list_(
    *,
    host: str | None,
    kind: str | None,
    mode: str | None,
    health: str | None,
    fmt: str,
    chosen: tuple[str, ...],
    order: str | None,
    most: int | None,
) -> None:
    """List cards, lendable or not, with the reason where one is not.

    \b
    Examples:
      cantle device list
      cantle device list --host gpu1 -o wide
      cantle device list --health failed --sort hostname
      cantle device list -c uuid -c address -o value
    """
    query = {"hostname": host, "type": kind, "mode": mode, "health": health}
    query["fields"] = fields(fmt, chosen, (*COLUMNS, "out_of_service"), WIDE, order)
    rows = connect().pages("/v1/devices", "devices", query)
    empty = unmatched("devices", "No devices: no host has reported one yet.", host, kind, mode, health)
    print_rows(rows, COLUMNS, fmt, wide=WIDE, rare="out_of_service", chosen=chosen, order=order, most=most, empty=empty)


@device.command("show")
@click.argument("device")
@output_options
def show(device: str, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show one card, by uuid or by address: what it could be, what it is, what it is wanted to be, and the reasons.
    HOST/ADDRESS tells equal addresses of several hosts apart.

    \b
    Examples:
      cantle device show 0000:af:00.0
      cantle device show gpu1/0000:af:00.0 -o json
    """
    client = connect()
    found = client.get(locate(client, device))
    print_record(found if fmt in ("json", "yaml") or chosen else readable(found), fmt, chosen=chosen)


@device.command("disable")
@click.argument("device")
def disable(device: str) -> None:
    """Lend nothing new of one card, before work on it. What is lent of it stays lent: 'cantle who' says to whom.

    \b
    Examples:
      cantle device disable gpu1/0000:86:00.0
    """
    _set_status(device, "disable")


@device.command("enable")
@click.argument("device")
def enable(device: str) -> None:
    """Lend of a card again.

    \b
    Examples:
      cantle device enable gpu1/0000:86:00.0
    """
    _set_status(device, "enable")


def _set_status(device: str, verb: str) -> None:
    client = connect()
    found = client.get(locate(client, device))
    client.post(f"/v2/devices/{segment(found['uuid'])}/{verb}")


device.add_command(set_mode)
device.add_command(intent)
