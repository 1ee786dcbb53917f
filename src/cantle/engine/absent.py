"""What is said of a thing that is not there: one wording for each kind of thing, which names what shows those that are.

What a caller may not see is absent for him in the same words, so that nobody learns what another project has.
"""

from __future__ import annotations

from collections.abc import Sequence

from cantle.errors import NotFound

#: Characters of a name in a message, and names in a list; all are in the error's details.
_LONGEST = 80
_MOST_NAMED = 20

_PROFILES = "'cantle profile list' shows them all."


def host(hostname: str) -> NotFound:
    """For a person or program that names a host."""
    return NotFound(
        "host-not-found", f"There is no host {_shown(hostname)}. 'cantle host list' names them.", hostname=hostname
    )


def report(hostname: str) -> NotFound:
    """For an agent that asks before its first report, or after its host was forgotten; the code tells it to report."""
    return NotFound(
        "host-not-found",
        f"Host {_shown(hostname)} has never reported: its agent sends an inventory first. 'cantle host list' names those that have.",
        hostname=hostname,
    )


def device(uuid: str) -> NotFound:
    """A device by its uuid."""
    return NotFound(
        "device-not-found", f"There is no device {_shown(uuid)}. 'cantle device list' shows them all.", uuid=uuid
    )


def device_at(hostname: str, address: str) -> NotFound:
    """A device by its address on a host that there is."""
    return NotFound(
        "device-not-found",
        f"Host {hostname} has no device {_shown(address)}. 'cantle device list --host {hostname}' shows those it has.",
        address=address,
    )


def intent(hostname: str, address: str) -> NotFound:
    """The intent for a device that there is."""
    return NotFound(
        "intent-not-found",
        f"There is no intent for {address} of {hostname}: the host's configuration decides. "
        f"'cantle device set-mode {address} MODE --host {hostname}' makes one.",
        address=address,
    )


def deployable(uuid: str) -> NotFound:
    """A deployable by its uuid."""
    return NotFound(
        "deployable-not-found",
        f"There is no deployable {_shown(uuid)}. 'cantle deployable list' shows them all.",
        uuid=uuid,
    )


def deployable_number(number: int) -> NotFound:
    """A deployable by the number that attributes have of it."""
    return NotFound(
        "deployable-not-found",
        f"There is no deployable number {number}. GET /v2/attributes shows the numbers, as deployable_id.",
        deployable_id=number,
    )


def attribute(uuid: str) -> NotFound:
    """An attribute of a deployable."""
    return NotFound(
        "attribute-not-found", f"There is no attribute {_shown(uuid)}. GET /v2/attributes shows them all.", uuid=uuid
    )


def provider(uuid: str) -> NotFound:
    """A resource provider that would be one of ours."""
    return NotFound(
        "provider-not-found",
        f"There is no provider {_shown(uuid)} of ours. 'cantle placement diff' shows those there are.",
        rp_uuid=uuid,
    )


def profile(name: str) -> NotFound:
    """A device profile, by its name or uuid."""
    return NotFound("profile-not-found", f"There is no device profile {_shown(name)}. {_PROFILES}", ref=name)


def profiles(names: Sequence[str]) -> NotFound:
    """Several of them."""
    return NotFound("profile-not-found", f"There is no device profile {_listed(names)}. {_PROFILES}", refs=list(names))


def profile_named_by(key: str, name: str) -> NotFound:
    """The device profile that an extra spec names."""
    return NotFound(
        "profile-not-found", f"There is no device profile {_shown(name)}, which {key} names. {_PROFILES}", ref=name
    )


def profile_or_flavor(name: str) -> NotFound:
    """What a lease is made of."""
    return NotFound(
        "profile-not-found",
        f"There is no device profile or flavor {_shown(name)}. 'cantle profile list' and 'cantle flavor list' show them all.",
        ref=name,
    )


def flavor(ref: str) -> NotFound:
    """A flavor, by its name or uuid."""
    return NotFound(
        "flavor-not-found", f"There is no flavor {_shown(ref)}. 'cantle flavor list' shows them all.", ref=ref
    )


def arqs(named: Sequence[str]) -> NotFound:
    """Accelerator requests, also those of another project."""
    return NotFound(
        "arq-not-found",
        f"There is no accelerator request {_listed(named)}. 'cantle arq list' shows those you may see.",
        arqs=list(named),
    )


def lease(uuid: str) -> NotFound:
    """A lease, also one of another project."""
    return NotFound(
        "lease-not-found",
        f"There is no lease {_shown(uuid)}. 'cantle lease list --all' shows those you may see.",
        uuid=uuid,
    )


def project(project_id: str) -> NotFound:
    """Another's project, be there one or not, for whoever is no administrator."""
    return NotFound(
        "project-not-found",
        f"There is no project {_shown(project_id)} of yours. Name your own or none; an administrator may name any.",
        project_id=project_id,
    )


def token(uuid: str) -> NotFound:
    """A token, valid or over."""
    return NotFound(
        "token-not-found", f"There is no token {_shown(uuid)}. 'cantle token list --all' shows them.", uuid=uuid
    )


def _listed(refs: Sequence[str]) -> str:
    """So many of them as one can read."""
    named = ", ".join(_shown(ref) for ref in refs[:_MOST_NAMED])
    return named if len(refs) <= _MOST_NAMED else f"{named} and {len(refs) - _MOST_NAMED} more"


def _shown(text: str) -> str:
    """As it was asked for, in quotes: short, whatever was sent."""
    return repr(text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "...")
