"""``cantle completion``: the script with which a shell completes commands, options and their values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes cantle's commands, options and values in SHELL.

    \b
    Examples:
      cantle completion bash > ~/.local/share/bash-completion/completions/cantle
      cantle completion zsh > ~/.zfunc/_cantle
      cantle completion fish > ~/.config/fish/completions/cantle.fish
    """
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    root = context.find_root()
    click.echo(made(root.command, {}, "cantle", "_CANTLE_COMPLETE").source())
