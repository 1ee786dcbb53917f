"""``cantle capacity``: what can be lent now, and what is lent."""

from __future__ import annotations

from typing import Any

import click

from cantle.cli.client import connect
from cantle.cli.output import fields, list_options, print_rows, unmatched

COLUMNS = ("hostname", "device_address", "resource_class", "total", "used", "free", "reason")
ROOM = ("name",)
STATES = (
    *("hostname", "resource_class", "inventory", "lendable", "lent", "releasing", "cleaning", "quarantined", "missing"),
    "withheld",
)
WIDE = ("deployable_uuid", *COLUMNS[:-1], "in_service", "traits", "reason")


@click.command()
@click.option("--host", help="Only this host.")
@click.option("--class", "resource_class", metavar="CLASS", help="Only this resource class, for example VGPU.")
@click.option("--free", is_flag=True, help="Only where something is free.")
@click.option("--profiles", is_flag=True, help="How many more of each profile and flavor fit now.")
@click.option("--states", is_flag=True, help="What became of every unit, by host and class: each is counted once.")
@click.option("--per-host", is_flag=True, help="With --profiles: on each host.")
@list_options
def capacity(
    *,
    host: str | None,
    resource_class: str | None,
    free: bool,
    profiles: bool,
    states: bool,
    per_host: bool,
    fmt: str,
    chosen: tuple[str, ...],
    order: str | None,
    most: int | None,
) -> None:
    """Show what can be lent: units in total, lent and free, for each deployable. Also 'cantle inventory'.

    Where a device is out of service nothing of it is free, and the reason says why.

    \b
    Examples:
      cantle capacity
      cantle capacity --host gpu1 -o wide
      cantle capacity --class VGPU --sort free:desc --limit 3
      cantle capacity --free -c resource_class -c free -o value
      cantle capacity --states
      cantle capacity --profiles
      cantle capacity --profiles --per-host --host gpu1
    """
    _refuse_together(states=states, profiles=profiles, free=free)
    if profiles and resource_class:
        raise click.UsageError("--class goes with no profile: --profiles counts each of them as a whole.")
    if per_host and not profiles:
        raise click.UsageError("--per-host belongs to --profiles.")
    if states:
        rows = connect().get("/v1/capacity/states", {"hostname": host})["states"]
        rows = [row for row in rows if resource_class in (None, row["resource_class"])]
        print_rows(
            rows,
            STATES,
            fmt,
            chosen=chosen,
            order=order,
            most=most,
            empty=unmatched("units", "No units.", host, resource_class),
        )
        return
    if profiles:
        rows = _room(connect().get("/v1/capacity/profiles", {"hostname": host})["profiles"], per_host=per_host)
        columns = (*ROOM, "hostname", "fits") if per_host else (*ROOM, "fits", "hosts", "problem")
        print_rows(rows, columns, fmt, chosen=chosen, order=order, most=most, empty="No profiles and no flavors.")
        return
    query = {"hostname": host, "resource_class": resource_class, "fields": fields(fmt, chosen, COLUMNS, WIDE, order)}
    found = (row for row in connect().pages("/v1/capacity", "capacity", query) if row["free"] > 0 or not free)
    empty = unmatched(
        "deployables", "Nothing can be lent yet. 'cantle device list' says why.", host, resource_class, free
    )
    print_rows(found, COLUMNS, fmt, wide=WIDE, chosen=chosen, order=order, most=most, empty=empty)


def _refuse_together(**asked: bool) -> None:
    names = [f"--{name}" for name, said in asked.items() if said]
    if len(names) > 1:
        raise click.UsageError(f"{' and '.join(names)} ask for different lists: leave one out.")


def _room(profiles: list[dict[str, Any]], *, per_host: bool) -> list[dict[str, Any]]:
    """A row for each profile, or for each and each host that has room for it."""
    if not per_host:
        return [{**row, "hosts": len(row["by_host"])} for row in profiles]
    return [
        {"name": row["name"], "hostname": host, "fits": fits}
        for row in profiles
        for host, fits in row["by_host"].items()
    ]
