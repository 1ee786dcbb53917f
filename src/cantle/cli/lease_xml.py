"""``cantle lease xml``: what libvirt is given to attach a lease by hand."""

from __future__ import annotations

from typing import Any

import click

from cantle import errors
from cantle.cli.client import Client, connect, segment


@click.command("xml")
@click.argument("uuid", metavar="LEASE|UNIT")
@click.option("--display", is_flag=True, help="A vGPU draws for the console of its guest.")
@click.option("--ramfb", is_flag=True, help="With --display: also before the guest's driver is there.")
def xml(uuid: str, *, display: bool, ramfb: bool) -> None:
    """Print the libvirt XML that attaches an active lease to a guest, one
    <hostdev> for each accelerator; of a UNIT (its uuid) only that one's.

    \b
    Examples:
      cantle lease xml 2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1
      cantle lease xml --display 2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1
    """
    from cantle.attach.libvirt import Screen, hostdev_xml  # noqa: PLC0415 - only this command needs it

    if ramfb and not display:
        raise click.UsageError("--ramfb goes with --display.")
    found = _lease_of(connect(), uuid)
    if found["state"] != "active":
        raise errors.Conflict(
            "lease-not-active",
            f"Lease {found['uuid']} is {found['state']}: only an active one has something to attach.",
        )
    if (found.get("attach") or "libvirt:").partition(":")[0] != "libvirt":
        raise errors.Conflict(
            "lease-in-container",
            f"Lease {found['uuid']} goes into {found['attach']} by itself: no virtual machine can have it.",
        )
    screen = Screen(ramfb=ramfb) if display else None
    for arq in found["arqs"]:
        kind, info, handle = (arq[f"attach_handle_{part}"] for part in ("type", "info", "uuid"))
        click.echo(hostdev_xml(kind, info, handle, screen=screen).rstrip("\n"))


def _lease_of(client: Client, uuid: str) -> dict[str, Any]:
    """A lease; or one with no more in it than the unit that is meant."""
    try:
        return dict(client.get(f"/v1/leases/{segment(uuid)}"))
    except errors.NotFound:
        holding = [row for row in client.get(f"/v1/who/{segment(uuid)}")["now"] if row["unit_uuid"] == uuid]
        if not holding or holding[0]["lease_uuid"] is None:
            raise
    found = dict(client.get(f"/v1/leases/{segment(holding[0]['lease_uuid'])}"))
    return {**found, "arqs": [arq for arq in found["arqs"] if arq["attach_handle_uuid"] == uuid]}
