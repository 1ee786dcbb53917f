"""``cantle config``: whether a configuration can be used, found out before a service is restarted with it."""

from __future__ import annotations

from pathlib import Path

import click
from oslo_config import cfg

from cantle.agent import refused
from cantle.agent.desired import DesiredFile
from cantle.cli.state_dir import default as default_state_dir
from cantle.conf import api as conf_api
from cantle.conf import devices as conf_devices
from cantle.conf import files as conf_files
from cantle.conf import keeper as conf_keeper
from cantle.conf import pci as conf_pci
from cantle.conf import placement as conf_placement
from cantle.conf import sample as conf_sample
from cantle.conf import slips as conf_slips
from cantle.errors import BadConfig
from cantle.kernel.root import Root
from cantle.model.enabled_types import EnabledTypes


@click.group()
def config() -> None:
    """Configuration files.

    \b
    Examples:
      cantle config check
      cantle config sample
    """


@config.command("sample")
def sample() -> None:
    """Print a configuration file with every option at its default, commented out, and what it means.

    \b
    Examples:
      cantle config sample > /etc/cantle/cantle.conf
    """
    click.echo(conf_sample.text(), nl=False)


@config.command("check")
@click.option(
    "--config-file",
    "config_files",
    multiple=True,
    type=click.Path(),
    help="Read this file; repeat for more, later ones win. [default: /etc/cantle/cantle.conf if there]",
)
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    help="Where the agents' memories are kept. [default: /var/lib/cantle for root, else ~/.local/state/cantle]",
)
def check(*, config_files: tuple[str, ...], state_dir: Path | None) -> None:
    """Say whether a configuration can be used by the services and by this host's agent, and whether it would take away what is lent
    on this host.

    Changes nothing. A service started with a configuration that would take something away starts all the same; the cards concerned stay
    as they are and say config-refused.

    \b
    Examples:
      cantle config check
      cantle config check --config-file ./new.conf
    """
    files, directories = (list(config_files), []) if config_files else conf_files.usual_places()
    types = conf_devices.load(files, directories)
    _read_all(conf_files.read(files, directories))
    for warning in dict.fromkeys([*types.warnings, *conf_slips.slips(files, directories)]):
        click.echo(f"warning: {warning}", err=True)
    state = state_dir or default_state_dir()
    try:
        refuse(state, types)
    except PermissionError:  # the user of the API, on a machine with an agent
        click.echo(
            f"warning: {state} is not for this user: whether anything lent would be taken away was not looked at",
            err=True,
        )
    enabled = ", ".join(one.type_id for one in types.types) or "none"
    click.echo(f"The configuration can be used. Enabled types: {enabled}.")


def _read_all(conf: cfg.ConfigOpts) -> None:
    """What the services read at their start.

    :raises BadConfig: what they would raise.
    """
    conf_pci.aliases(conf)
    conf_api.public_settings(conf)
    conf_api.agents_settings(conf)
    conf_keeper.outlets(conf)
    conf_keeper.receivers(conf)
    conf_keeper.ages(conf)
    conf_placement.publishing(conf)


def refuse(state: Path, types: EnabledTypes) -> None:
    """Refuse a configuration that would take away what the agents below a state directory have lent.

    :raises BadConfig: ``config-refused``.
    """
    told = []
    for memory in sorted(path for path in (state / "agents").glob("*") if path.is_dir()):
        simulated = state / "simulated" / memory.name
        root = Root(simulated) if simulated.is_dir() else Root()
        told += [f"{memory.name}: {line}" for line in refused.refusals(root, types, DesiredFile(memory).look())]
    if told:
        raise BadConfig("config-refused", "\n  ".join(["this would take away what is lent:", *told]))
