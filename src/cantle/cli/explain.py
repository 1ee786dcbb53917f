"""``cantle explain``: what could serve a request now, and why the rest could not."""

from __future__ import annotations

import json
from typing import Any

import click

from cantle.cli.client import connect
from cantle.cli.output import output_options, print_record, print_rows, safe
from cantle.cli.spec import specs_of

COLUMNS = ("group", "cards", "hosts", "reason", "mend")
WIDE = ("group", "code", "cards", "hosts", "reason", "mend", "examples")


@click.command()
@click.option("--profile", help="Ask about this device profile.")
@click.option("--flavor", help="Ask about this flavor.")
@click.option("--spec", "specs", multiple=True, metavar="KEY=VALUE", help="Ask about extra specs; repeat for more.")
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="How many times.")
@click.option("--host", help="Look at this host alone.")
@click.option("--numa-node", "nodes", type=click.IntRange(min=0), multiple=True, help="A memory node of the guest.")
@click.option(
    "--placement",
    is_flag=True,
    help="Ask OpenStack Placement why it offers no host, as nova-scheduler would. Run it where a keeper runs.",
)
@click.option(
    "--config-file",
    "config_files",
    multiple=True,
    type=click.Path(),
    help="With --placement, read this file; repeat for more. [default: /etc/cantle/cantle.conf and cantle.conf.d/]",
)
@output_options
def explain(
    *,
    profile: str | None,
    flavor: str | None,
    specs: tuple[str, ...],
    count: int,
    host: str | None,
    nodes: tuple[int, ...],
    placement: bool,
    config_files: tuple[str, ...],
    fmt: str,
    chosen: tuple[str, ...],
) -> None:
    """Say what could serve a request now, and for every other card the first reason why it could not. Changes nothing.

    Reasons are counted, the commonest first, each with what would mend it. One of whole hosts has 0 cards.

    \b
    Examples:
      cantle explain --profile gold
      cantle explain --flavor cg1.xlarge --count 2 -o wide
      cantle explain --spec "gpus== 2" --spec "gpu_arch=s== fermi"
      cantle explain --profile gold --host gpu1 -o json
      cantle explain --profile gold --placement
    """
    if sum(map(bool, (profile, flavor, specs))) != 1:
        raise click.UsageError("Ask about one thing: --profile, --flavor, or --spec once or more.")
    if config_files and not placement:
        raise click.UsageError("--config-file belongs to --placement: without it a server is asked.")
    if placement:
        if nodes:
            raise click.UsageError("Placement knows nothing of a guest's memory nodes: leave --numa-node away.")
        from cantle.cli.placement_explain import ask  # noqa: PLC0415 - a server's modules, which others need not load

        found = ask(config_files, name=profile or flavor, specs=specs_of(specs), count=count, hostname=host)
    else:
        query = {
            "profile": profile or flavor,
            "extra_specs": json.dumps(specs_of(specs)) if specs else None,
            "count": str(count),
            "hostname": host,
            "numa_nodes": ",".join(map(str, nodes)) or None,
        }
        found = connect().get("/v1/explain", query)
    if fmt in ("json", "yaml"):
        print_record(found, fmt, chosen=chosen)
        return
    if fmt in ("table", "wide"):
        click.echo(safe(found["summary"]) + ".", err=True)
    print_rows(_rows(found), COLUMNS, fmt, wide=WIDE, chosen=chosen)


def _rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each reason: of hosts first, then of the cards of each group."""
    rows = [_row("all together", reason) for reason in found["together"]]
    for group in found["groups"]:
        rows += [_row(group["name"], reason) for reason in group["reasons"]]
    return rows


def _row(group: str, reason: dict[str, Any]) -> dict[str, Any]:
    return {
        "group": group,
        "code": reason["code"],
        "cards": reason["cards"],
        "hosts": reason["hosts"],
        "reason": reason["what"],
        "mend": reason["mend"],
        "examples": reason["examples"],
    }
