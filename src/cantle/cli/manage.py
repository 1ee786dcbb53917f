"""``cantle-manage``: what an administrator does to the database, before a start or now and then."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from oslo_config import cfg

from cantle import __version__
from cantle.cli import main as program
from cantle.conf import api as conf_api
from cantle.conf import files as conf_files
from cantle.conf import keeper as conf_keeper
from cantle.engine import token as tokens
from cantle.keeper import housekeeping
from cantle.model.token import Role
from cantle.store import migrate
from cantle.store.database import Database
from cantle.store.revision import HEAD


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--config-file",
    "config_files",
    multiple=True,
    type=click.Path(),
    help="Read this file; repeat for more, later ones win. [default: /etc/cantle/cantle.conf and cantle.conf.d/]",
)
@click.version_option(__version__, prog_name="cantle-manage", message="%(prog)s %(version)s")
@click.pass_context
def manage(context: click.Context, config_files: tuple[str, ...]) -> None:
    """Look after the database that [database] connection names."""
    context.obj = conf_files.read(*((list(config_files), []) if config_files else conf_files.usual_places()))


@manage.group()
def db() -> None:
    """The database's schema and its old rows."""


@db.command()
@click.pass_obj
def sync(conf: cfg.ConfigOpts) -> None:
    """Bring the schema to what this version needs. Safe to run again, and on several machines at once."""
    url = conf_api.database_url(conf)
    before = migrate.current(url)
    migrate.upgrade(url)
    after = migrate.current(url)
    click.echo(f"schema {after}" + (" (nothing to do)" if before == after else f" (was {before or 'empty'})"))


@db.command()
@click.pass_obj
def version(conf: cfg.ConfigOpts) -> None:
    """Print the schema's version, and the one this program needs."""
    click.echo(f"schema {migrate.current(conf_api.database_url(conf)) or 'empty'}, needed {HEAD}")


@db.command()
@click.pass_obj
def purge(conf: cfg.ConfigOpts) -> None:
    """Delete what is older than [keeper] says, now. Running keepers do the same once an hour."""
    ages = conf_keeper.ages(conf)
    database = Database.open(conf_api.database_url(conf), outlets=conf_keeper.outlets(conf))
    try:
        deleted = housekeeping.sweep(database, ages)
    finally:
        database.close()
    click.echo("deleted " + ", ".join(f"{count} {what}" for what, count in deleted.items()))


@manage.group()
def token() -> None:
    """Tokens, for when there is none to make one with."""


@token.command()
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Of a 'cantle serve' that keeps its database there, in place of [database] connection.",
)
@click.pass_obj
def bootstrap(conf: cfg.ConfigOpts, state_dir: Path | None) -> None:
    """Make an administrator's token and print it, this once. For the first one, or when the last one is lost.

    Whoever may write to the database may do this; 'cantle token list' shows what was made so as created by bootstrap.
    """
    url = conf_api.database_url(conf) if state_dir is None else f"sqlite:///{(state_dir / 'cantle.db').absolute()}"
    database = Database.open(url)
    try:
        _, text = tokens.create_token(database, tokens.BOOTSTRAP, name="admin", role=Role.ADMIN)
    finally:
        database.close()
    click.echo(text)


def main() -> None:
    """Entry point of the command."""
    sys.exit(program.run(sys.argv[1:], manage, name="cantle-manage"))


if __name__ == "__main__":
    main()
