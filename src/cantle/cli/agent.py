"""``cantle agent``: this host's part by itself, for clouds of several hosts, and what the boot runs before anything uses the cards."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cantle import errors
from cantle.agent import joined as credentials_of_host
from cantle.agent import refused
from cantle.agent.agent import Agent
from cantle.agent.desired import DesiredFile
from cantle.agent.join import join as join_server
from cantle.agent.joined import Joined
from cantle.cli import credentials
from cantle.cli.agent_hooks import hooks, local_socket
from cantle.cli.notify import notify
from cantle.cli.parts import Parts
from cantle.cli.state_dir import default as default_state_dir
from cantle.cli.watchdog import Watchdog
from cantle.conf import devices as conf_devices
from cantle.conf import files as conf_files
from cantle.conf.values import certificates
from cantle.kernel.root import Root
from cantle.model.enabled_types import EnabledTypes
from cantle.model.host import same_host
from cantle.simulate import build as build_simulated
from cantle.simulate import load as load_simulated

#: Holds the bearer token of the agents' listener where there is no --token-file.
TOKEN_VARIABLE = "CANTLE_AGENT_TOKEN"  # noqa: S105 - the name of a variable

#: Holds the code of an invitation where there is no --code.
CODE_VARIABLE = "CANTLE_JOIN_CODE"

#: Where the memories of agents, and what joining leaves, lie below a state directory.
AGENTS = "agents"

_log = logging.getLogger(__name__)


@click.group()
def agent() -> None:
    """This host's part by itself.

    \b
    Examples:
      cantle agent join https://srv:6667 --code C --ca-fingerprint sha256:F
      cantle agent run
      cantle agent restore
    """


agent.add_command(hooks)


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
    """A host, its kernel, its memory and its configuration; ``joined``: what joining left, None where it never joined."""

    hostname: str
    root: Root
    memory: Path
    types: EnabledTypes
    joined: Joined | None = None

    def agent(
        self,
        server: str,
        stop: threading.Event,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        beat: Callable[[], object] = lambda: None,
    ) -> Agent:
        """The agent of this host."""
        return Agent(
            hostname=self.hostname,
            root=self.root,
            server_url=server,
            state_dir=self.memory,
            enabled_types=self.types,
            stop=stop,
            token=token,
            tls=tls,
            local_socket=local_socket(self.root),
            beat=beat,
        )


def place(host: str | None, state_dir: Path | None, config_files: tuple[str, ...], simulated: str | None) -> Place:
    """What the options say.

    :raises BadConfig: ``config-…``, ``joined-unusable``.
    :raises BadRequest: ``simulation-…``.
    :raises HostError: ``agent-state-unreadable``.
    """
    state = (state_dir or default_state_dir()).absolute()
    files, directories = (list(config_files), []) if config_files else conf_files.usual_places()
    types = conf_devices.load(files, directories)
    for warning in types.warnings:
        _log.warning("%s", warning)
    joined = credentials_of_host.load(state / AGENTS)
    known = host or (joined.host if joined is not None else None)
    if simulated is None:
        name, root = known or socket.gethostname(), Root()
    else:
        described = load_simulated(simulated)
        name, root = known or described.name, build_simulated(described, state / "simulated" / described.name)
    return Place(name, root, state / AGENTS / name, types, joined)


@agent.command("run")
@place_options
@click.option("--server", metavar="URL", help="The agents' listener of the server. [default: the one that was joined]")
@click.option(
    "--token-file",
    type=click.Path(),
    help=f"Holds the token of this host. [default: what {TOKEN_VARIABLE} says, or what joining left]",
)
@click.option(
    "--ca-file", type=click.Path(), help="Certificates to trust. [default: what joining left, or the system's]"
)
@click.option("--cert", type=click.Path(), help="A certificate of this host's own, for a server that asks for one.")
@click.option("--key", type=click.Path(), help="The key of --cert.")
@click.option("--strict", is_flag=True, help="Do not start with a configuration that would take away what is lent.")
def run(
    *,
    host: str | None,
    state_dir: Path | None,
    config_files: tuple[str, ...],
    simulated: str | None,
    server: str | None,
    token_file: str | None,
    ca_file: str | None,
    cert: str | None,
    key: str | None,
    strict: bool,
) -> None:
    """Speak for this host to a server: report its cards, and do what the server asks. Runs until it is told to stop.

    Which server, and by which token, is what 'cantle agent join' left in the state directory, unless options say otherwise.

    \b
    Examples:
      cantle agent run
      cantle agent run --server https://srv:6667 --token-file t --ca-file ca.pem
      cantle agent run --server http://127.0.0.1:6667 --simulate mixed-lab
    """
    _log_to_stderr()
    where = place(host, state_dir, config_files, simulated)
    if strict:
        refused.check(where.root, where.types, DesiredFile(where.memory).look())
    joined = where.joined if server is None or (where.joined is not None and where.joined.server == server) else None
    if server is None and joined is None:
        raise errors.BadConfig(
            "agent-not-joined",
            "This host has not joined a server: use 'cantle agent join' with a code from 'cantle host invite', or name a server and a "
            "token with --server and --token-file.",
        )
    token = credentials.find(token_file, TOKEN_VARIABLE) or (joined.token if joined is not None else None)
    ca = certificates(ca_file) or (joined.ca if joined is not None else "")
    url = server or (joined.server if joined is not None else "")
    parts = Parts()
    tls = credentials_of_host.trust(ca, cert=cert, key=key) if url.startswith("https:") else None
    watchdog = Watchdog()
    name = f"agent of {where.hostname}"
    made = where.agent(url, parts.stop, token, tls, watchdog.part(name))
    with parts.signals():
        parts.start(name, made.run)
        watchdog.start(parts.stop)
        notify("READY=1")
        try:
            parts.wait()
        finally:
            parts.stop.set()
            notify("STOPPING=1")
            parts.join()


@agent.command("join")
@click.argument("server", metavar="URL")
@click.option(
    "--code", envvar="CANTLE_JOIN_CODE", help=f"What 'cantle host invite' printed. [default: what {CODE_VARIABLE} says]"
)
@click.option("--ca-fingerprint", metavar="SHA256", help="Of the certificate of the server's private authority.")
@click.option(
    "--ca-file", type=click.Path(), help="Certificates to trust, in place of a fingerprint. [default: the system's]"
)
@click.option("--cert", type=click.Path(), help="A certificate of this host's own, for a server that asks for one.")
@click.option("--key", type=click.Path(), help="The key of --cert.")
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    help="Where the agent's memory is kept. [default: /var/lib/cantle for root, else ~/.local/state/cantle]",
)
def join(
    *,
    server: str,
    code: str | None,
    ca_fingerprint: str | None,
    ca_file: str | None,
    cert: str | None,
    key: str | None,
    state_dir: Path | None,
) -> None:
    """Join a server: use a code of 'cantle host invite' up for the token of this host, and keep that.

    'cantle agent run' needs no options then. URL is that of the agents' listener. The code is good once. The host goes by the name
    it was invited as; a host that joined under another name before takes what it remembers along.

    \b
    Examples:
      cantle agent join https://srv:6667 --code C --ca-fingerprint sha256:F
      CANTLE_JOIN_CODE=C cantle agent join https://srv:6667 --ca-file ./ca.pem
    """
    if not code:
        raise click.UsageError(
            f"A code is needed: --code, or {CODE_VARIABLE}. 'cantle host invite HOST' makes one on the server."
        )
    place = (state_dir or default_state_dir()).absolute() / AGENTS
    before = credentials_of_host.load(place)
    trusted = certificates(ca_file) or ""
    joined = join_server(server, code.strip(), fingerprint=ca_fingerprint, ca=trusted, cert=cert, key=key)
    kept = credentials_of_host.save(place, joined)
    if before is not None and credentials_of_host.carry_over(place, before.host, joined.host):
        click.echo(f"What was remembered as {before.host} is {joined.host}'s now.", err=True)
    click.echo(f"joined {joined.server} as {joined.host}; what proves it is in {kept}")
    if not same_host(joined.host, socket.gethostname()):
        click.echo(
            f"This machine calls itself {socket.gethostname()}; to the server it is {joined.host} from now on.",
            err=True,
        )


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


def _log_to_stderr() -> None:
    verbose = click.get_current_context().find_root().params.get("verbose")
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
