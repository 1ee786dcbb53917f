"""``cantle profile``: device profiles."""

from __future__ import annotations

import os
import select
import stat
from pathlib import Path
from typing import Any

import click

from cantle import errors
from cantle.cli.client import connect, segment
from cantle.cli.output import list_options, output_options, print_record, print_rows

COLUMNS = ("name", "groups", "description")
WIDE = ("uuid", *COLUMNS, "created_at")

#: Bytes of a file that holds a profile, and values in it; far more than the server takes.
LARGEST_FILE = 1 << 20
MOST_VALUES = 10_000

#: Seconds to wait for the next piece out of a pipe.
PIPE_S = 30.0


@click.group(no_args_is_help=True)
def profile() -> None:
    """Device profiles: flavors for devices."""


@profile.command("create")
@click.argument("name", required=False)
@click.option("--group", "groups", multiple=True, metavar="KEY=VALUE,…", help="A request group; repeat for more.")
@click.option("--description", help="A sentence for people.")
@click.option(
    "-f", "--file", "file", type=click.Path(path_type=Path), help="Read name, groups and description from YAML or JSON."
)
@output_options
def create(
    *,
    name: str | None,
    groups: tuple[str, ...],
    description: str | None,
    file: Path | None,
    fmt: str,
    chosen: tuple[str, ...],
) -> None:
    """Create a profile. A group asks for devices of one kind on one card: 'resources:CLASS=AMOUNT', 'trait:NAME=required'.

    \b
    Examples:
      cantle profile create small --group resources:VGPU=1
      cantle profile create gold --group resources:VGPU=1,trait:CUSTOM_A=required
      cantle profile create pair --group resources:PGPU=1 --group resources:VGPU=1
      cantle profile create -f gold.yaml
    """
    wanted = _read_file(file) if file is not None else {}
    given = {"name": name, "groups": [_group(text) for text in groups], "description": description}
    wanted.update({key: value for key, value in given.items() if value})
    if not wanted.get("name"):
        raise click.UsageError("A profile needs a name: cantle profile create NAME --group …")
    if not wanted.get("groups"):
        raise click.UsageError("A profile needs at least one group, for example --group resources:VGPU=1")
    print_record(connect().create("/v1/profiles", wanted), fmt, chosen=chosen)


@profile.command("list")
@list_options
def list_(fmt: str, chosen: tuple[str, ...], order: str | None, most: int | None) -> None:
    """List profiles.

    \b
    Examples:
      cantle profile list
      cantle profile list -c name -o value
    """
    rows = connect().pages("/v1/profiles", "profiles")
    empty = "No profiles. Make one with 'cantle profile create'."
    print_rows(rows, COLUMNS, fmt, wide=WIDE, chosen=chosen, order=order, most=most, empty=empty)


@profile.command("show")
@click.argument("profile")
@output_options
def show(profile: str, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show one profile, by name or uuid.

    \b
    Examples:
      cantle profile show gold
      cantle profile show gold -o yaml
    """
    print_record(connect().get(f"/v1/profiles/{segment(profile)}"), fmt, chosen=chosen)


@profile.command("delete")
@click.argument("profiles", nargs=-1, required=True)
def delete(profiles: tuple[str, ...]) -> None:
    """Delete profiles, by name or uuid. One that is in use stays, and the command says so.

    \b
    Examples:
      cantle profile delete gold
      cantle profile delete gold small
    """
    client = connect()
    for name in profiles:
        client.delete(f"/v1/profiles/{segment(name)}")


def _group(text: str) -> dict[str, str]:
    """``resources:VGPU=1,trait:CUSTOM_X=required`` as a request group."""
    group: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise click.BadParameter(
                f"{part!r} is not KEY=VALUE. A group looks like resources:VGPU=1,trait:CUSTOM_X=required",
                param_hint="--group",
            )
        if key.strip() in group:
            raise click.BadParameter(f"{key.strip()!r} stands twice in one group.", param_hint="--group")
        group[key.strip()] = value.strip()
    if not group:
        raise click.BadParameter("A group must ask for something: resources:VGPU=1", param_hint="--group")
    return group


def _read_file(file: Path) -> dict[str, Any]:
    """The profile that a YAML or JSON file holds; a list with one profile, as the accelerator API takes it, is good too."""
    import yaml  # noqa: PLC0415 - only this option pays for it

    class Loader(yaml.SafeLoader):
        """YAML as JSON has it: ``2026-12-24`` is a text and no date."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        data = _read(file)
        if len(data) > LARGEST_FILE:
            raise errors.BadRequest("malformed-file", f"{file} has more than {LARGEST_FILE} bytes: this is no profile.")
        found = yaml.load(data.decode(), Loader=Loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise errors.BadRequest("unreadable-file", f"Cannot read {file}: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where else ""
        raise errors.BadRequest("malformed-file", f"{file}{line} is neither YAML nor JSON.") from error
    except RecursionError:
        found = None
    if _is_too_much(found):
        raise errors.BadRequest(
            "malformed-file", f"{file} unfolds to more than {MOST_VALUES} values: this is no profile."
        )
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    if not isinstance(found, dict):
        raise errors.BadRequest(
            "malformed-file", f"{file} holds no profile: it must be a mapping with 'name' and 'groups'."
        )
    return found


def _read(file: Path) -> bytes:
    """The bytes of a file, or of a pipe as of ``<(…)``; a little more than `LARGEST_FILE` at most.

    :raises BadRequest: ``unreadable-file``: nobody writes to the pipe.
    """
    number = os.open(
        file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    )  # a named pipe would wait for somebody who writes
    with open(number, "rb", buffering=0) as opened:
        if not stat.S_ISFIFO(os.fstat(number).st_mode):
            return opened.read(LARGEST_FILE + 1)
        parts, size = [], 0
        while size <= LARGEST_FILE:
            ready, _, _ = select.select([number], [], [], PIPE_S)
            if not ready:
                raise errors.BadRequest("unreadable-file", f"Nothing came from the pipe {file} for {PIPE_S:g} s.")
            part = opened.read(LARGEST_FILE) or b""
            if not part:
                break
            parts.append(part)
            size += len(part)
        return b"".join(parts)


def _is_too_much(found: object) -> bool:
    """Whether there are too many values to be a profile. YAML's aliases can make of a few lines a document without end."""
    left, seen = [found], 0
    while left and seen <= MOST_VALUES:
        one = left.pop()
        seen += 1
        left += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return seen > MOST_VALUES
