"""``cantle device intent``: what an operator wants a card to be."""

from __future__ import annotations

import click

from cantle.cli.card import host_option, locate, seen, timeout_option, until_followed, wait_option
from cantle.cli.client import connect
from cantle.cli.output import output_options, print_record


@click.group(no_args_is_help=True)
def intent() -> None:
    """What a card is wanted to be. 'cantle device set-mode' changes it."""


@intent.command("show")
@click.argument("device")
@host_option
@output_options
def show(device: str, host: str | None, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show what a card is wanted to be, how far its host has followed, and who wanted it.

    \b
    Examples:
      cantle device intent show 0000:af:00.0
      cantle device intent show gpu1/0000:af:00.0 -c state -o value
    """
    client = connect()
    print_record(client.get(f"{locate(client, device, host)}/intent"), fmt, chosen=chosen)


@intent.command("clear")
@click.argument("device")
@host_option
@wait_option
@timeout_option
def clear(device: str, host: str | None, wait: bool, timeout: float) -> None:
    """Want nothing of a card any more: what its host's configuration says holds again.

    \b
    Examples:
      cantle device intent clear 0000:af:00.0
      cantle device intent clear gpu1/0000:af:00.0 --no-wait
    """
    client = connect()
    path = locate(client, device, host)
    card = client.get(path)
    client.delete(f"{path}/intent", seen(card) if card["intent"] else None)
    if wait:
        become = f"{card['hostname']}/{card['address']} to be as its host's configuration says"
        until_followed(client, path, None, seconds=timeout, become=become)
