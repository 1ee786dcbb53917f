"""``cantle cdi``: this machine's cards for container engines, without leases."""

from __future__ import annotations

import click

from cantle.cli.exit_codes import ExitCode
from cantle.cli.output import safe
from cantle.errors import HostError


@click.group(no_args_is_help=True)
def cdi() -> None:
    """Name this machine's cards for container engines (Container Device Interface)."""


@cdi.command("generate")
@click.option(
    "--output", metavar="FILE|-", default="-", show_default=True, help="Where to write; - is standard output."
)
@click.option("--root", "directory", metavar="DIR", help="Look at the tree below DIR in place of this machine.")
def generate(output: str, directory: str | None) -> ExitCode:
    """Write a CDI file that names every card: cantle/card=ADDRESS, and all of
    them: cantle/card=all.

    For machines whose cards are not lent: what a lease borrows with --attach
    cdi:NAME needs no such file, and this one gives cards to whoever may start
    containers. Needs no server, and writes nothing but FILE. Cards without
    device nodes are left out and named on standard error. The nodes alone are
    given: the vendor's libraries come with the image.

    \b
    Exit codes:
      0   written
      1   FILE cannot be written
      4   no card has device nodes

    \b
    Examples:
      cantle cdi generate
      cantle cdi generate --output /etc/cdi/cantle.json
      podman run --device cantle/card=0000:af:00.0 ...
    """
    from cantle.attach.cdi import CARD_KIND, cards, document  # noqa: PLC0415 - only this command needs it
    from cantle.kernel.root import Root  # noqa: PLC0415

    found, problems = cards(Root(directory or "/"))
    for problem in problems:
        click.echo(safe(f"cantle: warning: {problem.source}: {problem.message} [{problem.code}]"), err=True)
    everything = {node for nodes in found.values() for node in nodes}
    text = document(CARD_KIND, {**found, "all": everything} if found else {})
    if output == "-":
        click.echo(text.decode(), nl=False)
        return ExitCode.OK
    _write(output, text)
    click.echo(f"{output}: {len(found)} cards", err=True)
    return ExitCode.OK


def _write(output: str, text: bytes) -> None:
    """Whole or not at all: engines watch the directory."""
    import os  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    from cantle.kernel import whole_file  # noqa: PLC0415

    place = Path(output)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        directory = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            whole_file.replace(directory, place.name, text)
        finally:
            os.close(directory)
    except OSError as error:
        raise HostError(
            "output-unwritable", f"cannot write {output}: {error.strerror}", path=output, errno=error.errno
        ) from error
