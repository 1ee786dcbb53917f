"""``cantle lease``: borrow accelerators for a workload, see what to attach, give them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from cantle import errors
from cantle.cli.client import Client, connect, segment
from cantle.cli.lease_xml import xml
from cantle.cli.output import list_options, output_options, print_record, print_rows, unmatched
from cantle.cli.period import length, moment
from cantle.cli.wait import wait_for

COLUMNS = ("uuid", "state", "profile_name", "hostname", "workload")
WIDE = (*COLUMNS, "attach", "owner", "created_at", "expires_at", "on_expiry", "isolation", "reason", "arqs")

_wait = click.option("--wait", is_flag=True, help="Return when it is done, not when it is accepted.")
_timeout = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long --wait waits.",
)
_nodes = click.option(
    "--numa-node", "nodes", type=click.IntRange(min=0), multiple=True, help="A memory node of the guest."
)

_expires_at = click.option(
    "--expires-at",
    callback=moment,
    metavar="TIME",
    help="When it ends by itself, as 2026-12-24T18:00:00Z; without a zone it is UTC.",
)
_expires = click.option(
    "--expires", "expires_in", callback=length, metavar="LENGTH", help="After how long it ends by itself: 90m, 2h, 3d."
)
_on_expiry = click.option(
    "--on-expiry",
    type=click.Choice(["notify", "detach", "stop-guest"]),
    help="What happens then: say so and no more; give it back; stop its guest and give it back. [default: detach]",
)


@click.group(no_args_is_help=True)
def lease() -> None:
    """Borrow accelerators for a workload, and give them back."""


@lease.command("create")
@click.argument("profile", required=False)
@click.option("--profile", "named", metavar="PROFILE", help="The same as PROFILE without the word.")
@click.option("--flavor", metavar="FLAVOR", help="A flavor in place of a profile; FLAVOR without the word is the same.")
@click.option("--host", help="Only from this host. [default: the best that fits]")
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="How many times the profile.")
@click.option("--workload", default="", help="Who it is for, in your words: the name of a guest.")
@_nodes
@_expires
@_expires_at
@_on_expiry
@click.option("--attach", metavar="GUEST", help="Put it into a guest: libvirt:NAME, lxc:NAME, incus:NAME, cdi:NAME.")
@click.option("--start", is_flag=True, help="Start the guest of --attach then, if it does not run.")
@_wait
@_timeout
@output_options
def create(
    *,
    profile: str | None,
    named: str | None,
    flavor: str | None,
    host: str | None,
    count: int,
    workload: str,
    nodes: tuple[int, ...],
    expires_in: int | None,
    expires_at: str | None,
    on_expiry: str | None,
    attach: str | None,
    start: bool,
    wait: bool,
    timeout: float,
    fmt: str,
    chosen: tuple[str, ...],
) -> None:
    """Borrow what PROFILE, or a flavor, asks for. All of it or nothing.

    \b
    Examples:
      cantle lease create gold --workload vm1 --wait
      cantle lease create gold --host gpu1 --count 2 --numa-node 0
      cantle lease create gold --workload vm1 --expires 2h --on-expiry notify
      cantle lease create gold --host gpu1 --attach lxc:c1 --wait
      cantle lease create gold --host gpu1 --attach libvirt:vm1 --start --wait
      cantle lease create --flavor cg1.xlarge --attach lxc:c1 --wait
      cantle lease create gold -c uuid -o value
    """
    names = [one for one in (profile, named, flavor) if one is not None]
    if len(names) != 1:
        raise click.UsageError("Name one profile or one flavor.")
    client = connect()
    asked = {"profile": names[0], "hostname": host, "count": count, "workload": workload}
    ends = {"expires_at": expires_at, "expires_in": expires_in, "on_expiry": on_expiry}
    body = {**asked, **ends, "attach": attach, "start": start or None, "numa_nodes": nodes or None}
    made = client.create("/v1/leases", {key: value for key, value in body.items() if value is not None})
    if wait:
        made = _until(client, made["uuid"], ("active", "failed", "released"), timeout, "become active")
    _print(made, fmt, chosen)
    if wait and made["state"] != "active":
        raise _failed(made)


@lease.command("list")
@click.option("--all", "everything", is_flag=True, help="Released ones too.")
@click.option("--host", help="Only leases of this host.")
@click.option("--workload", help="Only leases of this workload.")
@click.option("--profile", help="Only leases of this profile.")
@list_options
def list_(
    *,
    everything: bool,
    host: str | None,
    workload: str | None,
    profile: str | None,
    fmt: str,
    chosen: tuple[str, ...],
    order: str | None,
    most: int | None,
) -> None:
    """List leases.

    \b
    Examples:
      cantle lease list
      cantle lease list --workload vm1 -c uuid -o value
      cantle lease list --all -o json
    """
    query = {
        "include_released": "true" if everything else None,
        "hostname": host,
        "workload": workload,
        "profile_name": profile,
    }
    rows = (_short(row, fmt) for row in connect().pages("/v1/leases", "leases", query))
    empty = unmatched("leases", "No leases.", host, workload, profile)
    print_rows(rows, COLUMNS, fmt, wide=WIDE, rare="reason", chosen=chosen, order=order, most=most, empty=empty)


@lease.command("show")
@click.argument("uuid")
@output_options
def show(uuid: str, fmt: str, chosen: tuple[str, ...]) -> None:
    """Show one lease with its accelerator requests.

    \b
    Examples:
      cantle lease show 2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1
      cantle lease show 2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1 -c state -o value
    """
    _print(connect().get(f"/v1/leases/{segment(uuid)}"), fmt, chosen)


@lease.command("renew")
@click.argument("uuid")
@_expires
@_expires_at
@_on_expiry
@click.option("--never", is_flag=True, help="It does not end by itself.")
@output_options
def renew(
    *,
    uuid: str,
    expires_in: int | None,
    expires_at: str | None,
    on_expiry: str | None,
    never: bool,
    fmt: str,
    chosen: tuple[str, ...],
) -> None:
    """Let a lease end at another time, or never. It is announced anew.

    \b
    Examples:
      cantle lease renew 2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1 --expires 2h
      cantle lease renew 2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1 --never
    """
    if never == bool(expires_in or expires_at):
        raise click.UsageError("Say when it ends: --expires, --expires-at or --never.")
    body = {"expires_at": expires_at, "expires_in": expires_in, "on_expiry": on_expiry}
    found = connect().post(
        f"/v1/leases/{segment(uuid)}/renew", {key: value for key, value in body.items() if value is not None}
    )
    _print(found, fmt, chosen)


@lease.command("release")
@click.argument("uuid")
@click.option(
    "--force", is_flag=True, help="Wait for its host no longer; only if that says that nobody holds the units."
)
@click.option("--reason", metavar="TEXT", help="With --force: on whose word they are free, if not on the host's. Kept.")
@_wait
@_timeout
def release(*, uuid: str, force: bool, reason: str | None, wait: bool, timeout: float) -> None:
    """Give back everything of a lease. Giving it back twice is no error.

    It is over when its host has taken the units back: when no process holds them any more, and they are clean.

    \b
    Examples:
      cantle lease release 2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1
      cantle lease release --wait 2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1
      cantle lease release --force --reason gone 2f1c7e0a5a7e4a528a534cf1a2f0c7d1
    """
    client = connect()
    if reason is not None and not force:
        raise click.UsageError("--reason goes with --force.")
    if force:
        client.post(f"/v1/leases/{segment(uuid)}/force-release", {} if reason is None else {"reason": reason})
        return
    client.post(f"/v1/leases/{segment(uuid)}/release")
    if wait:
        _until(client, uuid, ("released",), timeout, "be released")


@lease.command("can-move")
@click.argument("uuid")
@click.option("--to", "host", required=True, help="The host that is to take it over.")
@_nodes
@output_options
def can_move(*, uuid: str, host: str, nodes: tuple[int, ...], fmt: str, chosen: tuple[str, ...]) -> None:
    """Say whether a host could take a lease over now. Changes nothing; exit code 4 if it could not.

    \b
    Examples:
      cantle lease can-move 2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1 --to gpu2
    """
    asked = {"hostname": host, "numa_nodes": ",".join(map(str, nodes)) or None}
    found = connect().get(f"/v1/leases/{segment(uuid)}/can-move", asked)
    print_record(found, fmt, columns=("fits", "summary"), chosen=chosen)
    if not found["fits"]:
        raise errors.NoCapacity("no-capacity", f"{host} cannot take lease {uuid} over now: {found['summary']}.")


@lease.command("move")
@click.argument("uuid")
@click.option("--to", "host", required=True, help="The host that is to take it over.")
@click.option("--stopped", is_flag=True, help="Your word that the workload does not run: its devices go away under it.")
@_nodes
@_wait
@_timeout
@output_options
def move(
    *,
    uuid: str,
    host: str,
    stopped: bool,
    nodes: tuple[int, ...],
    wait: bool,
    timeout: float,
    fmt: str,
    chosen: tuple[str, ...],
) -> None:
    """Move the lease of a stopped workload: its units are claimed on the other host and given back on its own, both or neither.

    \b
    Examples:
      cantle lease move 2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1 --to gpu2 --stopped
    """
    client = connect()
    body = {"hostname": host, "stopped": stopped, **({"numa_nodes": nodes} if nodes else {})}
    moved = client.post(f"/v1/leases/{segment(uuid)}/move", body)
    if wait:
        moved = _until(client, uuid, ("active", "failed", "released"), timeout, "become active")
    _print(moved, fmt, chosen)


lease.add_command(xml)


def _until(client: Client, uuid: str, states: Sequence[str], timeout: float, become: str) -> dict[str, Any]:
    """The lease once its state is one of these."""

    def ask(seconds: float) -> dict[str, Any]:
        answer: dict[str, Any] = client.get(f"/v1/leases/{segment(uuid)}", {"wait": f"{seconds:g}"}, wait=seconds)
        return answer

    return wait_for(ask, lambda found: found["state"] in states, seconds=timeout, what=f"lease {uuid} to {become}")


def _failed(made: dict[str, Any]) -> errors.CantleError:
    """What became of a lease that is not active, and what to do about it: it may hold what did become ready."""
    why = (made["reason"] or "the host gave no reason").rstrip(".")
    why += "" if why.endswith("?") else "."
    held = any(arq["attach_handle_uuid"] for arq in made["arqs"])
    step = "Give back what it holds" if held else "It holds nothing; to take it off the list"
    return errors.CantleError(
        "lease-failed",
        f"Lease {made['uuid']} is {made['state']} on {made['hostname']}: {why} {step}: cantle lease release {made['uuid']}",
    )


def _print(found: dict[str, Any], fmt: str, chosen: Sequence[str]) -> None:
    print_record(_short(found, fmt), fmt, chosen=chosen)


def _short(found: dict[str, Any], fmt: str) -> dict[str, Any]:
    """The lease with each of its requests as one word group, where people read it: uuid, state, uuid of what is attached."""
    if fmt in ("json", "yaml"):
        return found
    arqs = [f"{arq['uuid']} {arq['state']} {arq['attach_handle_uuid'] or ''}".rstrip() for arq in found["arqs"]]
    return {**found, "arqs": arqs}
