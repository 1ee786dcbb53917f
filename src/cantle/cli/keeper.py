"""``cantle-keeper``: the keeper as a service of its own, where API and agents run apart (``cantle serve`` has it inside)."""

from __future__ import annotations

import contextlib
import logging
import sys

import click

from cantle import __version__
from cantle.api import logs
from cantle.cli import main as program
from cantle.cli.notify import notify
from cantle.cli.parts import Parts
from cantle.cli.watchdog import Watchdog
from cantle.conf import api as conf_api
from cantle.conf import files as conf_files
from cantle.conf import keeper as conf_keeper
from cantle.conf import placement as conf_placement
from cantle.conf import slips as conf_slips
from cantle.keeper.courier import Courier
from cantle.keeper.keeper import Keeper
from cantle.store.database import Database

#: Seconds that a call under way gets to end. What does not end in time is sent again by another keeper, or after the next start.
DRAIN_S = 30.0

_log = logging.getLogger(__name__)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--config-file",
    "config_files",
    multiple=True,
    type=click.Path(),
    help="Read this file; repeat for more, later ones win. [default: /etc/cantle/cantle.conf and cantle.conf.d/]",
)
@click.version_option(__version__, prog_name="cantle-keeper", message="%(prog)s %(version)s")
def keeper(config_files: tuple[str, ...]) -> None:
    """Deliver events, publish devices in Placement, end what is overdue, give back what has expired, tidy up.

    Run one or several on one database: each piece of work is done by one of them. SIGTERM ends it after the call under way.
    """
    files, directories = (list(config_files), []) if config_files else conf_files.usual_places()
    conf = conf_files.read(files, directories)
    url = conf_api.database_url(conf)
    outlets, receivers, ages = conf_keeper.outlets(conf), conf_keeper.receivers(conf), conf_keeper.ages(conf)
    publishing = conf_placement.publishing(conf)
    logs.configure(as_json=conf.use_json, level="DEBUG" if conf.debug else "INFO")
    conf_slips.warn(files, directories)
    with contextlib.ExitStack() as stack:
        parts = Parts()
        stack.enter_context(parts.signals())  # left last, so that Ctrl-C cannot break into what the stack does
        database = Database.open(url, outlets=outlets)
        stack.callback(database.close)
        stack.callback(parts.join, DRAIN_S)
        stack.callback(database.wakeups.stop)
        stack.callback(parts.stop.set)
        watchdog = Watchdog()
        beat = watchdog.part
        parts.start("keeper", Keeper(database, stop=parts.stop, ages=ages, beat=beat("keeper")).run)
        for receiver in receivers:
            name = f"events to {receiver.channel}"
            parts.start(name, Courier(database, receiver, stop=parts.stop, beat=beat(name)).run)
        if publishing is not None:
            parts.start("placement", publishing.publisher(database, parts.stop, beat("placement")).run)
        watchdog.start(parts.stop)
        told = ", ".join(str(receiver.channel) for receiver in receivers) or "nobody"
        _log.info("cantle-keeper is at work on %s; told of events: %s", database.where, told)
        notify("READY=1")
        parts.wait()
        notify("STOPPING=1")


def main() -> None:
    """Entry point of the command."""
    sys.exit(program.run(sys.argv[1:], keeper, name="cantle-keeper"))


if __name__ == "__main__":
    main()
