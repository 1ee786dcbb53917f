"""``cantle arq``: accelerator requests."""

from __future__ import annotations

import click

from cantle.cli.client import connect, segment
from cantle.cli.output import fields, list_options, output_options, print_record, print_rows, unmatched

COLUMNS = ("uuid", "state", "profile_name", "hostname", "reason")
WIDE = (
    *COLUMNS[:-1],
    "group_id",
    "resource_class",
    "instance_uuid",
    "lease_uuid",
    "attach_handle_type",
    "attach_handle_uuid",
    "attach_handle_info",
    "reason",
)


@click.group(no_args_is_help=True)
def arq() -> None:
    """Accelerator requests: one accelerator for one instance."""


@arq.command("list")
@click.option("--instance", metavar="UUID", help="Only requests of this instance.")
@click.option("--host", help="Only requests that are bound to this host.")
@click.option("--state", metavar="STATE", help="Only requests in this state, for example Bound.")
@list_options
def list_(
    *,
    instance: str | None,
    host: str | None,
    state: str | None,
    fmt: str,
    chosen: tuple[str, ...],
    order: str | None,
    most: int | None,
) -> None:
    """List accelerator requests, those of leases included, with the reason where one failed.

    \b
    Examples:
      cantle arq list
      cantle arq list --state BindFailed
      cantle arq list --instance 3f0f6f0a-9a55-4f0c-8a39-2f1d0a3b7c11 -o wide
    """
    query = {"instance": instance, "hostname": host, "state": state}
    query["fields"] = fields(fmt, chosen, COLUMNS, WIDE, order)
    rows = connect().pages("/v1/arqs", "arqs", query)
    empty = unmatched("accelerator requests", "No accelerator requests.", instance, host, state)
    print_rows(rows, COLUMNS, fmt, wide=WIDE, chosen=chosen, order=order, most=most, empty=empty)


@arq.command("show")
@click.argument("uuid")
@output_options
def show(uuid: str, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show one accelerator request: its state, and what to attach once it is Bound.

    \b
    Examples:
      cantle arq show 5d0e0c52-4a66-4a19-9b6b-bd0f3f6f9c1d
      cantle arq show 5d0e0c52-4a66-4a19-9b6b-bd0f3f6f9c1d -c state -o value
    """
    print_record(connect().get(f"/v1/arqs/{segment(uuid)}"), fmt, chosen=chosen)
