"""``cantle events``: what Nova and the webhook were told, and what is still on its way to them."""

from __future__ import annotations

import json

import click

from cantle.cli.client import connect
from cantle.cli.follow import follow
from cantle.cli.output import fields, list_options, print_rows, unmatched

COLUMNS = ("created_at", "channel", "type", "about", "outcome", "problem")
WIDE = ("uuid", *COLUMNS, "attempts", "due_at", "ended_at", "body")


@click.command()
@click.option("--channel", type=click.Choice(["nova", "webhook"]), help="Only what this receiver is told.")
@click.option("--type", "kind", metavar="TYPE", help="Only events of this type, for example lease.failed.")
@click.option("--about", metavar="UUID", help="Only events about this accelerator request or lease.")
@click.option("--follow", "-f", "following", is_flag=True, help="Print what happens from now on, one JSON line each.")
@click.option("--open", "unfinished", is_flag=True, help="Only what is still on its way.")
@list_options
def events(
    *,
    channel: str | None,
    kind: str | None,
    about: str | None,
    unfinished: bool,
    following: bool,
    fmt: str,
    chosen: tuple[str, ...],
    order: str | None,
    most: int | None,
) -> None:
    """List what others were told of accelerator requests and leases, the oldest first, and what came of it.

    Nobody is told unless [nova] or [webhook] says so (docs/events.md); then there are no events. They are kept for a week.

    With --follow, what is written into the audit log instead: who does what, as it happens. A lost connection is made again and nothing
    is missed.

    \b
    Examples:
      cantle events
      cantle events --open -o wide
      cantle events --follow
      cantle events --type lease.failed --sort created_at:desc --limit 5
      cantle events --about 2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1 -o json
    """
    if following:
        _follow(about, others=bool(channel or kind or unfinished or order or most))
        return
    query = {"channel": channel, "type": kind, "about": about, "ended": "false" if unfinished else None}
    query["fields"] = fields(fmt, chosen, COLUMNS, WIDE, order)
    rows = connect().pages("/v1/events", "events", query)
    nobody = "No events. Nobody is told of any unless [nova] or [webhook] says so."
    empty = unmatched("events", nobody, channel, kind, about, unfinished)
    print_rows(rows, COLUMNS, fmt, wide=WIDE, chosen=chosen, order=order, most=most, empty=empty)


def _follow(about: str | None, *, others: bool) -> None:
    """Until the reader or the user has enough."""
    if others:
        raise click.UsageError("--follow takes --about and no other choice: it prints all that happens.")
    for record in follow(connect(), "/v1/events", {"about": about}):
        click.echo(json.dumps(record, ensure_ascii=False))
