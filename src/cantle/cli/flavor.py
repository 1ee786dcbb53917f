"""``cantle flavor``: named sets of extra specs."""

from __future__ import annotations

import click

from cantle.cli.client import connect, segment
from cantle.cli.output import list_options, output_options, print_record, print_rows
from cantle.cli.spec import specs_of

COLUMNS = ("name", "extra_specs", "description")
WIDE = ("uuid", *COLUMNS, "created_at")


@click.group(no_args_is_help=True)
def flavor() -> None:
    """Flavors: named sets of extra specs, accepted wherever a profile is."""


@flavor.command("create")
@click.argument("name")
@click.option(
    "--spec", "specs", multiple=True, required=True, metavar="KEY=VALUE", help="An extra spec; repeat for more."
)
@click.option("--description", help="A sentence for people.")
@output_options
def create(*, name: str, specs: tuple[str, ...], description: str | None, fmt: str, chosen: tuple[str, ...]) -> None:
    """Create a flavor from extra specs, as Nova's flavors have them (docs/choosing.md lists them).

    \b
    Examples:
      cantle flavor create cg1.large --spec "gpus== 2"
      cantle flavor create cg1.fermi --spec gpus=2 --spec "gpu_arch=s== fermi"
      cantle flavor create t4.two --spec pci_passthrough:alias=t4:2
      cantle flavor create small --spec resources:VGPU=1
    """
    body = {"name": name, "extra_specs": specs_of(specs), "description": description}
    made = connect().create("/v1/flavors", {key: value for key, value in body.items() if value is not None})
    print_record(made, fmt, chosen=chosen)


@flavor.command("list")
@list_options
def list_(fmt: str, chosen: tuple[str, ...], order: str | None, most: int | None) -> None:
    """List flavors.

    \b
    Examples:
      cantle flavor list
      cantle flavor list -c name -o value
    """
    rows = connect().pages("/v1/flavors", "flavors")
    empty = "No flavors. Make one with 'cantle flavor create'."
    print_rows(rows, COLUMNS, fmt, wide=WIDE, chosen=chosen, order=order, most=most, empty=empty)


@flavor.command("show")
@click.argument("flavor")
@output_options
def show(flavor: str, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show one flavor, by name or uuid.

    \b
    Examples:
      cantle flavor show cg1.xlarge
      cantle flavor show cg1.xlarge -o yaml
    """
    print_record(connect().get(f"/v1/flavors/{segment(flavor)}"), fmt, chosen=chosen)


@flavor.command("delete")
@click.argument("flavors", nargs=-1, required=True)
def delete(flavors: tuple[str, ...]) -> None:
    """Delete flavors, by name or uuid. One that is in use stays, and the command says so.

    \b
    Examples:
      cantle flavor delete cg1.xlarge
    """
    client = connect()
    for name in flavors:
        client.delete(f"/v1/flavors/{segment(name)}")
