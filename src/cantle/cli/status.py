"""``cantle-status upgrade check``: may the services of this version be started here? In the form of OpenStack's own checks."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import click
from oslo_config import cfg

from cantle import __version__
from cantle.api.policy import Policy
from cantle.api.settings import Auth
from cantle.cli import main as program
from cantle.conf import api as conf_api
from cantle.conf import files as conf_files
from cantle.conf import keeper as conf_keeper
from cantle.conf import nova as conf_nova
from cantle.conf import placement as conf_placement
from cantle.errors import CantleError
from cantle.store.database import Database

#: A check's name.
EVENTS = "Events to Nova"

#: Columns of the table.
_WIDTH = 72


class Result(IntEnum):
    """How a check ended; the worst one is the exit code, as with ``nova-status upgrade check``."""

    SUCCESS = 0
    """Nothing stands in the way."""
    WARNING = 1
    """The services start, and something will not work as is probably meant."""
    FAILURE = 2
    """The services do not start, or refuse requests."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found. ``details`` says what to do, unless it is a success."""

    name: str
    result: Result
    details: str = ""


def findings(read: Callable[[], cfg.ConfigOpts]) -> list[Finding]:
    """The checks, in an order in which each makes sense only if those before it succeeded."""
    found: list[Finding] = []
    try:
        conf = read()
        settings = conf_api.public_settings(conf)
        conf_api.agents_settings(conf)
        url = conf_api.database_url(conf)
        conf_keeper.ages(conf)
        outlets = conf_keeper.outlets(conf)
        conf_keeper.receivers(conf)
        publishing = conf_placement.publishing(conf)
    except CantleError as error:
        return [_failed("Configuration", error)]
    found.append(Finding("Configuration", Result.SUCCESS))
    found.append(_try("Policy file", lambda: Policy(settings.policy_file)))
    found += _database(url)
    if settings.auth is Auth.KEYSTONE and outlets.nova_waits is None:
        found.append(
            Finding(
                EVENTS,
                Result.WARNING,
                "Clients come from Keystone, but [nova] names no way to log in: Nova is never told that accelerators are ready, "
                "and boots with one time out. Fill in [nova] auth_type and what belongs to it.",
            )
        )
    else:
        found.append(_events(conf))
    if settings.auth is Auth.KEYSTONE and publishing is None:
        found.append(
            Finding(
                "Devices in Placement",
                Result.WARNING,
                "Clients come from Keystone, but [placement] names no way to log in: no device is published, and Nova finds no host for "
                "a device profile. Fill in [placement] auth_type and what belongs to it.",
            )
        )
    else:
        found.append(Finding("Devices in Placement", Result.SUCCESS))
    return found


def _events(conf: cfg.ConfigOpts) -> Finding:
    """Asks Keystone what the login of ``[nova]`` may."""
    receiver = conf_nova.receiver(conf)
    if receiver is None:
        return Finding(EVENTS, Result.SUCCESS)
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415 (an extra, there if there is a receiver)

    from cantle.nova.event import NEEDED_ROLE  # noqa: PLC0415

    try:
        roles = receiver.roles()
    except ClientException as error:
        return Finding(EVENTS, Result.WARNING, f"[nova] cannot log in: {error}")
    if roles is None or NEEDED_ROLE in roles:
        return Finding(EVENTS, Result.SUCCESS)
    return Finding(
        EVENTS,
        Result.WARNING,
        f"The user of [nova] has the roles {', '.join(sorted(roles))} and not {NEEDED_ROLE}: Nova takes its events and then knows no "
        "instance but those of its own project, so that boots with accelerators time out. Unless Nova's policy context_is_admin says "
        f"otherwise: openstack role add --user USER --project PROJECT {NEEDED_ROLE}",
    )


def _database(url: str) -> list[Finding]:
    try:
        database = Database.open(url, check=False)
    except CantleError as error:
        return [_failed("Database", error)]
    try:
        schema = _try("Database schema", database.check_schema)
        at_fault = schema.details.startswith(("database-not-migrated", "database-too-new"))
        reach = Finding("Database", Result.SUCCESS)
        return [reach, schema] if schema.result is Result.SUCCESS or at_fault else [_renamed(schema, "Database")]
    finally:
        database.close()


def _renamed(one: Finding, name: str) -> Finding:
    return Finding(name, one.result, one.details)


def _try(name: str, check: Callable[[], object]) -> Finding:
    try:
        check()
    except CantleError as error:
        return _failed(name, error)
    return Finding(name, Result.SUCCESS)


def _failed(name: str, error: CantleError) -> Finding:
    return Finding(name, Result.FAILURE, f"{error.code}: {error.message}")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--config-file",
    "config_files",
    multiple=True,
    type=click.Path(),
    help="Read this file; repeat for more, later ones win. [default: /etc/cantle/cantle.conf and cantle.conf.d/]",
)
@click.version_option(__version__, prog_name="cantle-status", message="%(prog)s %(version)s")
@click.pass_context
def status(context: click.Context, config_files: tuple[str, ...]) -> None:
    """Whether this installation is ready."""
    context.obj = config_files


@status.group()
def upgrade() -> None:
    """Before an upgrade, and after."""


@upgrade.command()
@click.pass_obj
def check(config_files: tuple[str, ...]) -> int:
    """Look at configuration, policy and database, and at what Keystone says of our login. Changes nothing.

    The exit code is 0 if all is well, 1 for a warning, 2 for a failure.
    """
    found = findings(
        lambda: conf_files.read(*((list(config_files), []) if config_files else conf_files.usual_places()))
    )
    click.echo(table(found))
    return int(max(one.result for one in found))


def table(found: list[Finding]) -> str:
    """The findings as OpenStack's commands draw them."""
    rule = "+" + "-" * (_WIDTH + 2) + "+"
    lines = [rule, _row("Upgrade Check Results"), rule]
    for one in found:
        lines += [_row(f"Check: {one.name}"), _row(f"Result: {one.result.name.capitalize()}")]
        lines += [_row(line) for line in textwrap.wrap(f"Details: {one.details or 'None'}", _WIDTH)]
        lines.append(rule)
    return "\n".join(lines)


def _row(text: str) -> str:
    return f"| {text:{_WIDTH}} |"


def main() -> None:
    """Entry point of the command."""
    sys.exit(program.run(sys.argv[1:], status, name="cantle-status"))


if __name__ == "__main__":
    main()
