"""``cantle who``: who has a card or unit, and what an instance, a lease or a guest has."""

from __future__ import annotations

import click

from cantle.cli.client import connect, segment
from cantle.cli.output import output_options, print_rows

COLUMNS = ("hostname", "device", "state", "project_id", "by", "workload", "guest", "instance_uuid", "since")
WIDE = (
    *("hostname", "device", "model", "unit_uuid", "resource_class", "state", "reason", "project_id", "by", "since"),
    *("workload", "guest", "instance_uuid", "arq_uuid", "lease_uuid", "expires_at"),
)
PAST_COLUMNS = ("created_at", "action", "hostname", "device", "user_id", "owner_id", "lease_uuid", "facts")


@click.command()
@click.argument("thing")
@click.option("--past", is_flag=True, help="What was done lately in place of what is so now.")
@output_options
def who(*, thing: str, past: bool, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show who has THING, or what THING has.

    THING is the PCI address of a card, the uuid of a card, of a mediated device, of an instance, of a request or of a lease, or the name
    of a guest or container as it was given with --workload or --attach. HOST/ADDRESS is the card of that host alone.

    \b
    Examples:
      cantle who 0000:af:00.0
      cantle who my-container
      cantle who 6b1f3c9e-0d61-4a0c-9a53-4cf1a2f0c7d1 -o json
      cantle who 0000:af:00.0 --past
    """
    host, slash, address = thing.rpartition("/")
    found = connect().get(f"/v1/who/{segment(address)}")
    rows, columns = (found["past"], PAST_COLUMNS) if past else (found["now"], COLUMNS)
    rows = [row for row in rows if not slash or row["hostname"] == host]
    empty = "Nothing is known of it." if past else "Nobody has it, and it has nothing."
    rare = None if past else "reason"
    print_rows(rows, columns, fmt, wide=None if past else WIDE, rare=rare, chosen=chosen, empty=empty)
