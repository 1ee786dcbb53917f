"""``cantle arq``: accelerator requests."""

from __future__ import annotations

import click

from cantle.cli.client import connect, segment
from cantle.cli.output import output_options, print_record, print_rows

COLUMNS = ("uuid", "state", "device_profile_name", "hostname")
WIDE = (
    "uuid",
    "state",
    "device_profile_name",
    "device_profile_group_id",
    "hostname",
    "instance_uuid",
    "attach_handle_type",
    "attach_handle_uuid",
    "attach_handle_info",
)


@click.group(no_args_is_help=True)
def arq() -> None:
    """Accelerator requests: one accelerator for one instance."""


@arq.command("list")
@click.option("--instance", metavar="UUID", help="Only requests of this instance.")
@output_options
def list_(instance: str | None, fmt: str, chosen: tuple[str, ...]) -> None:
    """List accelerator requests, those of leases included.

    \b
    Examples:
      cantle arq list
      cantle arq list --instance 3f0f6f0a-9a55-4f0c-8a39-2f1d0a3b7c11 -o wide
    """
    rows = connect().get("/v2/accelerator_requests", {"instance": instance})["arqs"]
    print_rows(rows, COLUMNS, fmt, wide=WIDE, chosen=chosen, empty="No accelerator requests.")


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
    record = connect().get(f"/v2/accelerator_requests/{segment(uuid)}")
    print_record(record, fmt, columns=[name for name in record if name != "links"], chosen=chosen)
