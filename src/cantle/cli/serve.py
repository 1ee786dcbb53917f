"""``cantle serve``: API, keeper and agents in one process on SQLite. The one place that joins both towers.

The order of a start: everything that may be refused comes before anything is made. Configuration is read, the state directory
held, the ports bound; then the schema is brought up to date in a child process (Alembic's memory goes with it), the database
opened, the agents started, and only then are requests answered. That it serves is said when the agents have told what they have.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from cantle import errors
from cantle.agent.agent import Agent
from cantle.api import logs
from cantle.api.app import agents_app, public_app, warn_of_shared_token
from cantle.api.settings import Auth, Settings
from cantle.cli.agent_hooks import local_socket
from cantle.cli.config import refuse as refuse_configuration
from cantle.cli.listen import Address, HttpServer
from cantle.cli.notify import notify
from cantle.cli.parts import Parts
from cantle.cli.reach import Reach, agents_url, reach_options
from cantle.cli.readiness import say_ready
from cantle.cli.state_dir import StateDir
from cantle.cli.state_dir import default as default_state_dir
from cantle.cli.watchdog import Watchdog
from cantle.conf import api as conf_api
from cantle.conf import devices as conf_devices
from cantle.conf import files as conf_files
from cantle.conf import keeper as conf_keeper
from cantle.conf import placement as conf_placement
from cantle.conf import slips as conf_slips
from cantle.engine import token as tokens
from cantle.keeper.courier import Courier, Receiver
from cantle.keeper.housekeeping import Ages
from cantle.keeper.keeper import Keeper
from cantle.keeper.placement import Publishing
from cantle.kernel.root import Root
from cantle.model.enabled_types import EnabledTypes
from cantle.model.event import Outlets
from cantle.simulate import Description, packaged
from cantle.simulate import build as build_simulated
from cantle.simulate import load as load_simulated
from cantle.store.database import Database
from cantle.store.upgrade import upgrade_in_child

_log = logging.getLogger(__name__)

#: The first administrator's token, in the state directory.
ADMIN_TOKEN = "admin.token"  # noqa: S105 - the name of a file

#: Requests of clients served at once.
PUBLIC_THREADS = 12

#: Requests that one agent may have waiting. It needs one; one that it gave up to look at its host again holds its place until the
#: host's work changes or its time is over.
WAITING_PER_AGENT = 8

#: Requests of agents served at once besides those that wait.
SPARE_AGENT_THREADS = 4


@click.command()
@click.option(
    "--state-dir",
    type=click.Path(),
    help="Where everything is kept. [default: /var/lib/cantle for root, else ~/.local/state/cantle]",
)
@reach_options
@click.option(
    "--auth",
    type=click.Choice([one.value for one in Auth]),
    help="How clients prove who they are: none, Cantle's own tokens, or Keystone's. [default: what [api] auth says, else none]",
)
@click.option(
    "--simulate",
    "simulated",
    multiple=True,
    metavar="NAME|FILE",
    help=f"Add a simulated host; repeat for more. Names: {', '.join(packaged())}.",
)
@click.option("--simulated-only", is_flag=True, help="Leave this machine's own cards alone.")
@click.option(
    "--config-file",
    "config_files",
    multiple=True,
    type=click.Path(),
    help="Read this file; repeat for more, later ones win. [default: /etc/cantle/cantle.conf if there]",
)
@click.option("--strict", is_flag=True, help="Do not start with a configuration that would take away what is lent.")
def serve(
    *,
    state_dir: str | None,
    listen: str,
    agents_listen: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_ca: Path | None,
    agents_client_ca: Path | None,
    auth: str | None,
    simulated: tuple[str, ...],
    simulated_only: bool,
    config_files: tuple[str, ...],
    strict: bool,
) -> None:
    """Run Cantle on this machine: API, keeper and this host's agent in one process.

    Unless told otherwise it answers this machine only. It keeps all it knows in the state directory. It says that it is serving when
    its hosts have told what they have, after 10 s at the latest. Ctrl-C or SIGTERM ends it; what it lent stays lent. With
    --auth token, the first start writes an administrator's token into admin.token there.

    \b
    Examples:
      cantle serve
      cantle serve --auth token
      cantle serve --simulate t4 --simulated-only --state-dir ./state
      cantle serve --listen 127.0.0.1:0 --config-file ./cantle.conf
      cantle serve --agents-listen 0.0.0.0:6667 --tls-cert c.pem --tls-key k.pem
    """
    if state_dir == "":
        raise click.UsageError("--state-dir is empty: name a directory, or leave it out for the usual place.")
    files, directories = (list(config_files), []) if config_files else conf_files.usual_places()
    conf = conf_files.read(files, directories)
    if auth is not None:
        conf_api.register(conf)
        conf.set_override("auth", auth, group="api")
    plan = Plan(
        default_state_dir() if state_dir is None else Path(state_dir),
        Reach.of(listen, agents_listen, cert=tls_cert, key=tls_key, ca=tls_ca, client_ca=agents_client_ca),
        conf_api.public_settings(conf),
        conf_api.agents_settings(conf),
        conf.database.connection,
        conf_devices.load(files, directories),
        choose_hosts(simulated, own=not simulated_only, needed=agents_listen is None),
        conf_keeper.outlets(conf),
        conf_keeper.receivers(conf),
        conf_keeper.ages(conf),
        conf_placement.publishing(conf),
    )
    logs.configure(as_json=conf.use_json, level=_log_level(debug=conf.debug))
    plan.reach.check(plan.settings)
    if strict:
        refuse_configuration(plan.state_dir, plan.types)
    conf_slips.warn(files, directories, also=plan.types.warnings)
    with contextlib.ExitStack() as stack:
        _run(stack, plan)


def _log_level(*, debug: bool) -> str:
    verbose = click.get_current_context().find_root().params.get("verbose")
    return "DEBUG" if debug else "INFO" if verbose else "WARNING"


@dataclass(frozen=True, slots=True)
class HostChoice:
    """A host whose agent runs in this process; without a description it is this machine."""

    name: str
    description: Description | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run, checked as far as it can be before anything is made."""

    state_dir: Path
    reach: Reach
    settings: Settings
    agents_settings: Settings
    database_url: str | None
    types: EnabledTypes
    hosts: Sequence[HostChoice]
    outlets: Outlets
    receivers: Sequence[Receiver]
    ages: Ages
    publishing: Publishing | None


def choose_hosts(simulated: Sequence[str], *, own: bool, needed: bool = True) -> list[HostChoice]:
    """The hosts to run agents for; ``needed``: at least one.

    :raises BadRequest: ``simulation-…``.
    :raises BadConfig: ``host-twice``, ``no-host``.
    """
    chosen = [HostChoice(socket.gethostname())] if own else []
    for name in simulated:
        description = load_simulated(name)
        if description.name in [host.name for host in chosen]:
            raise errors.BadConfig(
                "host-twice", f"There are two hosts named {description.name!r}; leave one --simulate out."
            )
        chosen.append(HostChoice(description.name, description))
    if not chosen and needed:
        raise errors.BadConfig(
            "no-host", "--simulated-only needs at least one --simulate, or --agents-listen for others' agents."
        )
    return chosen


def _run(stack: contextlib.ExitStack, plan: Plan) -> None:
    """Start all parts in order, wait for a signal, end them in reverse. The stack undoes what was done when a step fails."""
    os.umask(0o077)  # whatever is written is for this user
    parts = Parts()
    stack.enter_context(parts.signals())  # left last, so that Ctrl-C cannot break into what the stack does
    public = HttpServer(plan.reach.public, threads=PUBLIC_THREADS, name="cantle", tls=plan.reach.tls)
    stack.callback(public.stop)
    outer = _outer(plan)
    if outer is not None:
        stack.callback(outer.stop)
    waiting = len(plan.hosts) * WAITING_PER_AGENT
    inner = HttpServer(Address("127.0.0.1", 0), threads=waiting + SPARE_AGENT_THREADS, name="cantle-agents")
    stack.callback(inner.stop)
    state = StateDir(plan.state_dir)
    stack.callback(state.close)

    url = plan.database_url or f"sqlite:///{state.path / 'cantle.db'}"
    upgrade_in_child(url)
    if parts.asked:
        return
    database = Database.open(url, outlets=plan.outlets)
    stack.callback(database.close)
    if plan.settings.auth is Auth.TOKEN:
        _first_token(database, state)

    # Whoever may call the agents' listener may speak for hosts; the secret keeps other users of this machine out.
    token = secrets.token_urlsafe(32)
    inner_settings = dataclasses.replace(plan.agents_settings, agents_token=token, parked_slots=waiting)
    agents = [
        Agent(
            hostname=host.name,
            root=root,
            server_url=inner.address.url,
            state_dir=state.child("agents", host.name),
            enabled_types=plan.types,
            stop=parts.stop,
            token=token,
            local_socket=local_socket(root),
        )
        for host, root in ((one, _root(one, state)) for one in plan.hosts)
    ]
    stack.callback(parts.join)
    stack.callback(inner.stop)  # here too: the listeners' threads end when they do
    if outer is not None:
        stack.callback(outer.stop)
    stack.callback(public.stop)
    stack.callback(database.wakeups.stop)  # so that waiting requests are answered now
    stack.callback(parts.stop.set)
    settings = plan.settings
    parts.start("agents' listener", lambda: inner.serve(agents_app(database, inner_settings)))
    if outer is not None and plan.reach.agents is not None:
        of_others = dataclasses.replace(plan.agents_settings, open_to_agents=False, agents_ca=_authority(plan))
        warn_of_shared_token(of_others)
        parts.start("other agents' listener", lambda: outer.serve(agents_app(database, of_others)))
        url_of_agents = settings.agents_url or agents_url(outer.url, plan.reach.agents)
        settings = dataclasses.replace(settings, agents_url=url_of_agents, agents_ca=_authority(plan))
    _start_keeper(parts, database, plan)
    for host, agent in zip(plan.hosts, agents, strict=True):
        parts.start(f"agent of {host.name}", agent.run)
    parts.start("listener", lambda: public.serve(public_app(database, settings)))
    begun = {host.name: agent.begun for host, agent in zip(plan.hosts, agents, strict=True)}
    lines = [f"cantle is serving on {public.url} (state {state.path})"]
    if outer is not None:
        lines.append(f"agents of other hosts are answered on {outer.url}")
    parts.start("readiness", lambda: say_ready(begun, parts.stop, lines))
    parts.wait()
    notify("STOPPING=1")


def _outer(plan: Plan) -> HttpServer | None:
    """The listener for agents of other hosts. Their waiting calls hold a thread each, so it has threads of its own."""
    if plan.reach.agents is None:
        return None
    threads = plan.agents_settings.parked_slots + SPARE_AGENT_THREADS
    return HttpServer(plan.reach.agents, threads=threads, name="cantle-agents", tls=plan.reach.agents_tls)


def _authority(plan: Plan) -> str | None:
    return plan.reach.ca or plan.settings.agents_ca


def _first_token(database: Database, state: StateDir) -> None:
    """Leave an administrator's token where only this user finds it, if there is none yet."""
    if tokens.first_admin(database, lambda text: state.write(ADMIN_TOKEN, f"{text}\n")):
        click.echo(f"The first administrator's token is in {state.path / ADMIN_TOKEN}", err=True)


def _start_keeper(parts: Parts, database: Database, plan: Plan) -> None:
    """What happens without anybody asking. The watchdog looks after it alone: an agent that is stuck in its host's kernel is no reason to
    start the server again, and could not even be killed."""
    watchdog = Watchdog()
    beat = watchdog.part
    parts.start("keeper", Keeper(database, stop=parts.stop, ages=plan.ages, beat=beat("keeper")).run)
    for receiver in plan.receivers:
        name = f"events to {receiver.channel}"
        parts.start(name, Courier(database, receiver, stop=parts.stop, beat=beat(name)).run)
    if plan.publishing is not None:
        parts.start("placement", plan.publishing.publisher(database, parts.stop, beat("placement")).run)
    watchdog.start(parts.stop)


def _root(host: HostChoice, state: StateDir) -> Root:
    if host.description is None:
        return Root()
    return build_simulated(host.description, state.child("simulated") / host.name)
