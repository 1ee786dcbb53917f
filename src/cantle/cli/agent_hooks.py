"""``cantle agent hooks``: what libvirt and LXC run when guests start and end, so that leases follow guests that others start."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from cantle.attach import lxc
from cantle.attach.hooks import installed
from cantle.cli.output import list_options, print_rows
from cantle.kernel.root import Root
from cantle.wire.hook import SOCKET

_root = click.option(
    "--root", "directory", metavar="DIR", default="/", help="Act on the tree below DIR. [default: this machine]"
)
_seconds = click.option(
    "--seconds",
    type=click.FloatRange(1, 60),
    default=10.0,
    show_default=True,
    help="How long a guest with a lease may be kept waiting for the agent.",
)
_socket = click.option(
    "--directory", "socket", metavar="DIR", default="", help="Where the agent's socket is. [default: /run/cantle]"
)


def local_socket(root: Root) -> str | None:
    """Where an agent answers hooks: on a machine root's alone does, as hooks are root's."""
    return SOCKET if os.geteuid() == 0 or not root.is_machine else None


@click.group()
def hooks() -> None:
    """Let guests that others start find what they borrowed.

    Hooks ask this host's agent before a guest starts, and tell it when one
    has ended (docs/attach.md).

    \b
    Examples:
      cantle agent hooks show
      cantle agent hooks install
      cantle agent hooks remove
    """


@hooks.command("show")
@_root
@_seconds
@_socket
@list_options
def show(
    *, directory: str, seconds: float, socket: str, fmt: str, chosen: Sequence[str], order: str | None, most: int | None
) -> None:
    """Show which files are installed, and whether they are those of this version.

    \b
    Examples:
      cantle agent hooks show
      cantle agent hooks show -o json
    """
    root = Root(directory)
    rows = []
    for one in installed.hooks(root, seconds=seconds, directory=socket):
        there = root.read_or_none(one.place)
        state = "missing" if there is None else "installed" if there == one.text.removesuffix("\n") else "other"
        rows.append({"file": root.host_path(one.place), "state": state, "for": one.manager})
    print_rows(rows, ("file", "for", "state"), fmt, chosen=chosen, order=order, most=most)


@hooks.command("install")
@_root
@_seconds
@_socket
def install(*, directory: str, seconds: float, socket: str) -> None:
    """Install them for libvirt and LXC.

    libvirt looks for hooks when its daemon starts: restart it once if it had
    none. The agent names the hook in the configuration of each container
    with a lease, at its next look.

    \b
    Examples:
      cantle agent hooks install
      cantle agent hooks install --seconds 5
    """
    root = Root(directory)
    written = installed.install(root, installed.hooks(root, seconds=seconds, directory=socket))
    for place in written:
        click.echo(root.host_path(place))
    if not written:
        click.echo("Everything is installed already.", err=True)
    elif installed.LIBVIRT in written and root.names("run/libvirt"):
        click.echo("Restart libvirt's daemon (virtqemud, or libvirtd) once, if it had no hooks before.", err=True)


@hooks.command("remove")
@_root
def remove(*, directory: str) -> None:
    """Take them away again: from the configurations of containers first.

    \b
    Examples:
      cantle agent hooks remove
    """
    root = Root(directory)
    lxc.without_hooks(root)
    for place in installed.remove(root):
        click.echo(root.host_path(place))
    lxc.without_hooks(root)  # an agent that looked in between has named them once more
