"""``cantle agent``: this host's part by itself, for clouds of several hosts, and what the boot runs before anything uses the cards."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cantle import errors
from cantle.agent import refused
from cantle.agent.agent import Agent
from cantle.agent.desired import DesiredFile
from cantle.cli.notify import notify
from cantle.cli.parts import Parts
from cantle.cli.state_dir import default as default_state_dir
from cantle.conf import devices as conf_devices
from cantle.conf import files as conf_files
from cantle.kernel.root import Root
from cantle.model.enabled_types import EnabledTypes
from cantle.simulate import build as build_simulated
from cantle.simulate import load as load_simulated

#: Holds the bearer token of the agents' listener where there is no --token-file.
TOKEN_VARIABLE = "CANTLE_AGENT_TOKEN"  # noqa: S105 - the name of a variable

_log = logging.getLogger(__name__)


@click.group()
def agent() -> None:
    """This host's part by itself.

    \b
    Examples:
      cantle agent run --server https://cantle.example:6667 --token-file ./token
      cantle agent restore
    """


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say which host and which memory of it."""
    for option in (
        click.option("--host", metavar="NAME", help="The host's name on the server. [default: this machine's]"),
        click.option(
            "--state-dir",
            type=click.Path(path_type=Path),
            help="Where the agent's memory is kept. [default: /var/lib/cantle for root, else ~/.local/state/cantle]",
        ),
        click.option(
            "--config-file",
            "config_files",
            multiple=True,
            type=click.Path(),
            help="Read this file; repeat for more, later ones win. [default: /etc/cantle/cantle.conf if there]",
        ),
        click.option("--simulate", "simulated", metavar="NAME|FILE", help="Act on a simulated host, not this machine."),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Place:
    """A host, its kernel, its memory and its configuration."""

    hostname: str
    root: Root
    memory: Path
    types: EnabledTypes

    def agent(self, server: str, stop: threading.Event, token: str | None = None) -> Agent:
        """The agent of this host."""
        return Agent(
            hostname=self.hostname,
            root=self.root,
            server_url=server,
            state_dir=self.memory,
            enabled_types=self.types,
            stop=stop,
            token=token,
        )


def place(host: str | None, state_dir: Path | None, config_files: tuple[str, ...], simulated: str | None) -> Place:
    """What the options say.

    :raises BadConfig: ``config-…``.
    :raises BadRequest: ``simulation-…``.
    """
    state = (state_dir or default_state_dir()).absolute()
    files, directories = (list(config_files), []) if config_files else conf_files.usual_places()
    types = conf_devices.load(files, directories)
    for warning in types.warnings:
        _log.warning("%s", warning)
    if simulated is None:
        name, root = host or socket.gethostname(), Root()
    else:
        described = load_simulated(simulated)
        name, root = host or described.name, build_simulated(described, state / "simulated" / described.name)
    return Place(name, root, state / "agents" / name, types)


@agent.command("run")
@place_options
@click.option("--server", required=True, metavar="URL", help="The agents' listener of the server.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help=f"Holds the listener's token ([agents] token). [default: what {TOKEN_VARIABLE} says]",
)
@click.option("--strict", is_flag=True, help="Do not start with a configuration that would take away what is lent.")
def run(
    *,
    host: str | None,
    state_dir: Path | None,
    config_files: tuple[str, ...],
    simulated: str | None,
    server: str,
    token_file: Path | None,
    strict: bool,
) -> None:
    """Speak for this host to a server: report its cards, and do what the server asks. Runs until it is told to stop.

    \b
    Examples:
      cantle agent run --server https://cantle.example:6667 --token-file ./token
      cantle agent run --server http://127.0.0.1:6667 --simulate mixed-lab
    """
    _log_to_stderr()
    where = place(host, state_dir, config_files, simulated)
    if strict:
        refused.check(where.root, where.types, DesiredFile(where.memory).look())
    token = _token(token_file)
    parts = Parts()
    made = where.agent(server, parts.stop, token)
    with parts.signals():
        parts.start(f"agent of {where.hostname}", made.run)
        notify("READY=1")
        try:
            parts.wait()
        finally:
            parts.stop.set()
            notify("STOPPING=1")
            parts.join()


@agent.command("restore")
@place_options
@click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(0, 600),
    default=30.0,
    show_default=True,
    help="Seconds to wait for drivers that are still starting.",
)
def restore(
    *, host: str | None, state_dir: Path | None, config_files: tuple[str, ...], simulated: str | None, seconds: float
) -> None:
    """Bring every card to what is wanted of it and make ready what is lent, by this host's own memory; then end.

    For the boot: after the vendors' services, before whatever uses the cards (docs/deploy/systemd/cantle-restore.service). Needs no
    server. A host without a memory has nothing to restore. What cannot be restored is tried again by the agent.

    \b
    Examples:
      cantle agent restore
      cantle agent restore --wait 60
    """
    _log_to_stderr()
    where = place(host, state_dir, config_files, simulated)
    made = where.agent("http://127.0.0.1", threading.Event())
    end = time.monotonic() + seconds
    done = made.restore()
    while done.failures and time.monotonic() < end:
        time.sleep(min(1.0, max(0.0, end - time.monotonic())))
        done = made.restore()
    click.echo(f"{where.hostname}: {done.intents} intents, {done.units} lent units, {len(done.failures)} failures")
    if done.failures:
        raise errors.HostError("restore-incomplete", "; ".join(done.failures))


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.BadConfig("agent-token-unreadable", f"cannot read the token in {file}: {error}") from error


def _log_to_stderr() -> None:
    verbose = click.get_current_context().find_root().params.get("verbose")
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
