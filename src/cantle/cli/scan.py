"""``cantle scan``: the accelerators of this machine, of a captured tree, or of a saved dump of ``lspci``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import BinaryIO

import click

from cantle.agent.scan import Scan, ScanRow, scan_dump
from cantle.agent.scan import scan as scan_tree
from cantle.cli.exit_codes import ExitCode
from cantle.cli.output import output_options, print_rows, safe, text
from cantle.cli.prose import folded
from cantle.errors import BadRequest
from cantle.kernel.pci_ids import PciIds
from cantle.kernel.root import Root

COLUMNS = ["address", "id", "name", "class", "driver", "iommu", "numa", "sriov", "capabilities", "mode", "verdict"]
WIDE = [*COLUMNS[:4], "revision", "subsystem", *COLUMNS[4:]]

#: In a window too narrow for all, columns are left out in this order until the sentences have room to be read.
DISPENSABLE = ("numa", "class", "sriov", "capabilities", "iommu", "driver", "id")
#: What a column that may be folded needs at least.
FOLDED = {"name": 18, "capabilities": 13, "verdict": 26}

#: A dump of the largest machines has some hundred thousand bytes.
_LARGEST_DUMP = 16 << 20


@click.command()
@click.option(
    "--root",
    "directory",
    metavar="DIR",
    help="Look at the tree below DIR, which holds a captured sys/ (and proc/), in place of this machine.",
)
@click.option(
    "--lspci",
    "dump",
    type=click.File("rb"),
    metavar="FILE|-",
    help="Look at saved output of lspci: -D -nn, -D -nn -k, -D -nn -mm, or -D -vmm -nn -k.",
)
@click.option("--all", "everything", is_flag=True, help="Show every PCI function, not only accelerators.")
@output_options
def scan(directory: str | None, dump: BinaryIO | None, everything: bool, fmt: str, chosen: tuple[str, ...]) -> ExitCode:
    """Show the accelerators that are really there, and whether each can be lent.

    Shown is every display, 3D and processing-accelerator function, and every parent of mediated devices. Needs no
    configuration, no server and no special rights, and writes nothing anywhere.

    \b
    CAPABILITIES  what the card could be made into, by its files
    MODE          what lending it now would mean: passthrough (whole), mdev,
                  vendor-vfio, sriov, mig; display-only for screens of BMCs and
                  of virtual machines; unassignable, see VERDICT
    SRIOV         virtual functions: enabled of total. Each is a part of its
                  card and never a card
    VERDICT       "can be lent ...", "cannot now: ...", or "cannot: ...": never,
                  or not before something is mended

    \b
    Exit codes:
      0   everything could be read, whatever was found
      1   something could not be read, standard error says what; rows are right
      2   the command line, the tree or the dump is malformed

    \b
    Examples:
      cantle scan
      cantle scan -o json | jq '.[] | select(.lendable)'
      ssh gpu7 lspci -D -nn -k | cantle scan --lspci -
    """
    if directory == "":
        raise click.UsageError("--root is empty: name a directory, or leave it out to look at this machine.")
    if directory is not None and dump is not None:
        raise click.UsageError("--root and --lspci exclude each other.")
    found = _look(directory, dump, everything)
    for problem in found.problems:
        click.echo(safe(f"cantle: warning: {problem.source}: {problem.message} [{problem.code}]"), err=True)
    rows = [row.document() if fmt in ("json", "yaml") else _cells(row) for row in found.rows]
    columns = COLUMNS
    if fmt == "table" and not chosen and sys.stdout.isatty():
        columns = fitting(rows, shutil.get_terminal_size().columns)
    empty = "No PCI function." if everything else "No accelerator. (cantle scan --all shows every PCI function.)"
    print_rows(rows, columns, fmt, wide=WIDE, chosen=chosen, empty=empty)
    if len(columns) < len(COLUMNS):
        left_out = ", ".join(name for name in COLUMNS if name not in columns)
        click.echo(folded(f"(Left out in this narrow window: {left_out}. -o wide shows them.)", sys.stderr), err=True)
    return ExitCode.FAILED if found.problems else ExitCode.OK


def fitting(rows: Sequence[dict[str, object]], width: int) -> list[str]:
    """The columns that fit into a window of ``width`` characters."""
    needed = {name: max(len(name), *(len(text(row[name])) for row in rows), 0) + 2 for name in COLUMNS}
    needed.update({name: min(needed[name], least + 2) for name, least in FOLDED.items()})
    columns = list(COLUMNS)
    for name in DISPENSABLE:
        if sum(needed[one] for one in columns) - 2 <= width:
            break
        columns.remove(name)
    return columns


def _look(directory: str | None, dump: BinaryIO | None, everything: bool) -> Scan:
    if dump is not None:
        return scan_dump(_decode(dump.read(_LARGEST_DUMP + 1)), everything=everything)
    root = Root(directory or "/")
    return scan_tree(root, PciIds(root, Root("/")), everything=everything)


def _decode(data: bytes) -> str:
    """A dump may have come through another system's editor: with a byte order mark, or as UTF-16."""
    if len(data) > _LARGEST_DUMP:
        raise BadRequest(
            "bad-lspci-dump", f"the dump has more than {_LARGEST_DUMP >> 20} MiB: this is no output of lspci"
        )
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return data.decode(encoding, errors="replace")


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)


def _cells(row: ScanRow) -> dict[str, object]:
    """A row for people: what belongs together in one cell. The fields of ``-o json`` are there too, for ``-c``."""
    together = {
        "id": None if row.vendor_id is None else f"{row.vendor_id}:{row.device_id}",
        "class": row.kind if row.class_id is None else f"{row.kind} {row.class_id}",
        "iommu": row.iommu_group,
        "numa": row.numa_node,
        "sriov": None if row.sriov_total is None else f"{_known(row.sriov_enabled)} of {row.sriov_total}",
        "verdict": row.reason,
        "revision": row.revision,
        "subsystem": row.subsystem,
    }
    return {**row.document(), **together}
