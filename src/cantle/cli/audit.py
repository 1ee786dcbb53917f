"""``cantle audit``: who did what to which device, lease, request or host, and when."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from cantle.cli.client import connect
from cantle.cli.output import list_options, print_rows, unmatched
from cantle.cli.period import period

COLUMNS = ("created_at", "action", "user_id", "hostname", "device", "lease_uuid", "facts")
WIDE = (
    *("uuid", "created_at", "action", "user_id", "project_id", "request_id", "token_uuid", "owner_id", "hostname"),
    *("device", "unit_uuid", "resource_class", "lease_uuid", "arq_uuid", "instance_uuid", "since", "facts"),
)

_FILTERS = (
    click.option("--action", metavar="ACTION", help="Only this action, for example unit.returned."),
    click.option("--user", "user_id", metavar="ID", help="Only what this person or service did."),
    click.option("--project", "owner_id", metavar="ID", help="Only what concerns this project."),
    click.option("--host", "hostname", metavar="NAME", help="Only what concerns this host."),
    click.option("--device", metavar="ADDRESS", help="Only what concerns cards at this address."),
    click.option("--lease", "lease_uuid", metavar="UUID", help="Only what concerns this lease."),
    click.option("--arq", "arq_uuid", metavar="UUID", help="Only what concerns this accelerator request."),
    click.option("--instance", "instance_uuid", metavar="UUID", help="Only what concerns this instance."),
    click.option("--request", "request_id", metavar="ID", help="Only what this request did."),
)


def _filters(command: Any) -> Any:
    for option in reversed(_FILTERS):
        command = option(command)
    return period(command)


@click.group(no_args_is_help=True)
def audit() -> None:
    """Who did what to which thing, and when. The log can be read and nothing else."""


@audit.command("list")
@_filters
@list_options
def list_(*, fmt: str, chosen: tuple[str, ...], order: str | None, most: int | None, **query: str | None) -> None:
    """List records, the oldest first.

    \b
    Examples:
      cantle audit list --from 2026-12-01 --device 0000:af:00.0
      cantle audit list --lease 2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1
      cantle audit list --action unit.quarantined -o wide
    """
    empty = unmatched("records", "No records.", *query.values())
    print_rows(_records(query), COLUMNS, fmt, wide=WIDE, chosen=chosen, order=order, most=most, empty=empty)


@audit.command("export")
@_filters
def export(**query: str | None) -> None:
    """Print records as JSON, one line each, the oldest first: for archives and other programs.

    \b
    Examples:
      cantle audit export > audit.jsonl
      cantle audit export --from 2026-11-01 --to 2026-12-01
    """
    for record in _records(query):
        click.echo(json.dumps(record, ensure_ascii=True))


def _records(query: dict[str, str | None]) -> Iterator[dict[str, Any]]:
    return connect().pages("/v1/audit", "records", query)
