"""``cantle placement``: what OpenStack Placement has of our devices beside what it shall have.

It works on the database and on Placement itself, with the configuration of the keeper, and needs no server: run it where a keeper runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from cantle.cli.exit_codes import ExitCode
from cantle.cli.output import output_options, print_rows, safe
from cantle.cli.placement_adopt import taken_rows
from cantle.conf import api as conf_api
from cantle.conf import files as conf_files
from cantle.conf import placement as conf_placement
from cantle.engine import absent
from cantle.errors import BadConfig, CantleError, Conflict, NotFound
from cantle.keeper import placement_adopt, placement_check, placement_diff, placement_isolation
from cantle.keeper.placement import Publishing
from cantle.keeper.placement_diff import HostDifference, Line
from cantle.store import cyborg as cyborg_store
from cantle.store import publication
from cantle.store.database import Database

DIFF = ("hostname", "provider", "there", "shall", "why")
DIFF_WIDE = (*DIFF, "uuid", "writes")
ADOPTED = ("hostname", "what", "name", "uuid", "has")
CHECKED = ("hostname", "provider", "consumer", "allocated", "requested", "says")


@dataclass(frozen=True, slots=True)
class Ground:
    """What a command stands on."""

    db: Database
    publishing: Publishing
    hosts: dict[str, int]


@click.group(no_args_is_help=True)
@click.option(
    "--config-file",
    "config_files",
    multiple=True,
    type=click.Path(),
    help="Read this file; repeat for more, later ones win. [default: /etc/cantle/cantle.conf and cantle.conf.d/]",
)
@click.pass_context
def placement(context: click.Context, config_files: tuple[str, ...]) -> None:
    """What OpenStack Placement has of our devices. Run it where a keeper runs: it uses the keeper's configuration."""
    context.obj = config_files


@placement.command()
@click.argument("hosts", nargs=-1, metavar="[HOST]...")
@output_options
@click.pass_obj
def diff(config_files: tuple[str, ...], hosts: tuple[str, ...], fmt: str, chosen: tuple[str, ...]) -> int:
    """Show what Placement has beside what it shall have, as a tree. Writes nothing; exit code 1 if they differ.

    \b
    Examples:
      cantle placement diff
      cantle placement diff gpu1 -o json
    """
    with _ground(config_files, hosts) as ground:
        return _show(ground, fmt, chosen)


@placement.command()
@click.argument("hosts", nargs=-1, metavar="[HOST]...")
@click.option("--plan", is_flag=True, help="Show what would be written, and write nothing.")
@output_options
@click.pass_obj
def sync(
    config_files: tuple[str, ...], hosts: tuple[str, ...], *, plan: bool, fmt: str, chosen: tuple[str, ...]
) -> int:
    """Bring Placement to what it shall have now, as the keeper does by itself; show what is left to do.

    \b
    Examples:
      cantle placement sync gpu1 --plan
      cantle placement sync gpu1
    """
    with _ground(config_files, hosts) as ground:
        if not plan:
            _sync(ground)
        return _show(ground, fmt, chosen, writes=True)


@placement.command()
@click.argument("hosts", nargs=-1, metavar="[HOST]...")
@click.option("--plan", is_flag=True, help="Show what would be taken over, and change nothing.")
@click.option(
    "--leftovers",
    is_flag=True,
    help="Also what Cyborg made that is no device of ours: nothing more is taken of it, and it goes when nobody has anything of it.",
)
@click.option(
    "--cyborg-database",
    envvar="CANTLE_CYBORG_DATABASE",
    metavar="URL",
    help="Read Cyborg's database, too: its device profiles and bound requests are kept. A password is better given in the variable.",
)
@click.option(
    "--cyborg-conf",
    type=click.Path(),
    metavar="FILE",
    help="Read Cyborg's database, too: the one of [database] connection in this cyborg.conf.",
)
@output_options
@click.pass_obj
def adopt(
    config_files: tuple[str, ...],
    hosts: tuple[str, ...],
    *,
    plan: bool,
    leftovers: bool,
    cyborg_database: str | None,
    cyborg_conf: str | None,
    fmt: str,
    chosen: tuple[str, ...],
) -> int:
    """Take over the providers that Cyborg made for our devices, with their uuids and allocations. Stop Cyborg first.

    A host that Placement does not know, or that a keeper is at, is left out, and said; the exit code is 1 then.

    \b
    Examples:
      cantle placement adopt --plan
      cantle placement adopt gpu1 --cyborg-conf /etc/cyborg/cyborg.conf
    """
    url = conf_placement.cyborg_database(cyborg_conf) if cyborg_conf else cyborg_database
    with _ground(config_files, hosts) as ground:
        cyborg = cyborg_store.read(url) if url else None
        take, publishing = placement_adopt.plan if plan else placement_adopt.adopt, ground.publishing
        rows: dict[tuple[object, object], dict[str, object]] = {}
        troubled = False
        for name, number in ground.hosts.items():
            host = (publishing.settings, number, name)
            try:
                taken = take(ground.db, publishing.client, *host, leftovers=leftovers, cyborg=cyborg)
            except (NotFound, Conflict) as error:
                _warn(name, error)
                troubled = True
                continue
            for row in taken_rows(name, taken):
                rows.setdefault((row["what"], row["uuid"]), row)
    print_rows(
        list(rows.values()),
        ADOPTED,
        fmt,
        wide=(*ADOPTED, "instead_of", "ending"),
        chosen=chosen,
        empty="Nothing to take over.",
    )
    return ExitCode.FAILED if troubled else ExitCode.OK


@placement.command()
@click.argument("hosts", nargs=-1, metavar="[HOST]...")
@output_options
@click.pass_obj
def check(config_files: tuple[str, ...], hosts: tuple[str, ...], fmt: str, chosen: tuple[str, ...]) -> int:
    """Find allocations in Placement without an accelerator request, and the reverse. Writes nothing; exit code 1 if there are any.

    Boots and deletions under way are among them: what is still there a minute later is real.

    \b
    Examples:
      cantle placement check
      cantle placement check gpu1 -o json
    """
    with _ground(config_files, hosts) as ground:
        rows = [
            {
                "hostname": one.host,
                "provider": one.provider,
                "uuid": one.uuid,
                "consumer": one.consumer,
                "allocated": one.allocated,
                "requested": one.requested,
                "says": one.says,
            }
            for name, number in ground.hosts.items()
            for one in placement_check.disagreements(ground.db, ground.publishing.client, number, name)
        ]
    print_rows(
        rows, CHECKED, fmt, wide=(*CHECKED, "uuid"), chosen=chosen, empty="Placement and Cantle agree on who has what."
    )
    return ExitCode.FAILED if rows else ExitCode.OK


@contextlib.contextmanager
def _ground(config_files: Sequence[str], names: Sequence[str]) -> Iterator[Ground]:
    conf = conf_files.read(*((list(config_files), []) if config_files else conf_files.usual_places()))
    publishing = conf_placement.publishing(conf)
    if publishing is None:
        raise BadConfig(
            "placement-not-configured",
            "[placement] names no way to log in (auth_type and what belongs to it): nothing is published.",
        )
    db = Database.open(conf_api.database_url(conf))
    try:
        with db.read() as connection:
            found = publication.hosts_named(connection, names)
            pooled = publishing.settings.pool_identical
            for words in placement_isolation.warnings(connection) if pooled else ():
                click.echo(safe(f"cantle: warning: {words}"), err=True)
        for name in names:
            if name not in found:
                raise absent.host(name)
        yield Ground(db, publishing, found)
    finally:
        db.close()


def _sync(ground: Ground) -> None:
    publisher = ground.publishing.publisher(ground.db)
    busy = [name for name, number in ground.hosts.items() if not publisher.publish_now(number, name)]
    if busy:
        raise Conflict("claim-lost", f"A keeper is at work on host {', '.join(busy)}; try again in a moment.")


def _show(ground: Ground, fmt: str, chosen: Sequence[str], *, writes: bool = False) -> int:
    trees: dict[str, HostDifference | CantleError] = {}
    settings = ground.publishing.settings
    for name, number in ground.hosts.items():
        try:
            trees[name] = placement_diff.compare(ground.db, ground.publishing.client, settings, number, name)
        except (NotFound, Conflict) as error:
            trees[name] = error
    for name, tree in trees.items():
        if isinstance(tree, HostDifference) and tree.held_up is not None:
            _warn(name, tree.held_up)
    if fmt == "table" and not chosen:
        for name, tree in trees.items():
            for text in _drawn(name, tree, writes=writes):
                click.echo(text)
    else:
        print_rows([_row(line) for line in _lines(trees)], DIFF, fmt, wide=DIFF_WIDE, chosen=chosen)
    same = all(isinstance(tree, HostDifference) and tree.same for tree in trees.values())
    return ExitCode.OK if same else ExitCode.FAILED


def _warn(host: str, error: CantleError) -> None:
    click.echo(safe(f"cantle: warning: {host}: {error.message} [{error.code}]"), err=True)


def _lines(trees: dict[str, HostDifference | CantleError]) -> Iterator[Line]:
    for name, tree in trees.items():
        if isinstance(tree, CantleError):
            yield Line(name, name, "", None, None, why=f"{tree.code}: {tree.message}")
        else:
            yield from tree.lines


def _row(line: Line) -> dict[str, object]:
    return {
        "hostname": line.host,
        "provider": line.provider,
        "uuid": line.uuid,
        "there": line.there,
        "shall": line.shall,
        "writes": list(line.writes),
        "why": line.why,
    }


def _drawn(name: str, tree: HostDifference | CantleError, *, writes: bool) -> Iterator[str]:
    """A host and its providers as a tree."""
    if isinstance(tree, CantleError):
        yield safe(f"{name}: {tree.message} [{tree.code}]")
        return
    yield safe(
        f"{tree.root.name if tree.root else name} {f'({tree.root.uuid})' if tree.root else '(nothing to publish)'}"
    )
    for position, line in enumerate(tree.lines, 1):
        last = position == len(tree.lines)
        yield safe(f"{'└──' if last else '├──'} {line.provider} ({line.uuid})")
        for text in _facts(line, writes=writes):
            yield safe(f"{'   ' if last else '│  '}     {text}")


def _facts(line: Line, *, writes: bool) -> Iterator[str]:
    if line.why == "not ours":
        yield "not ours: left alone"
        return
    if line.trouble:
        yield f"! {line.why}"
        return
    if line.there == line.shall and not line.writes:
        yield f"= {line.there}"
    else:
        yield f"- {line.there or 'nothing'}"
        yield f"+ {line.shall or 'nothing'}"
    if line.why:
        yield f"because {line.why}"
    if writes:
        yield from (f"to write: {one}" for one in line.writes)
