"""What ``cantle placement adopt`` prints: a line for each provider, device profile and accelerator request of Cyborg's."""

from __future__ import annotations

from collections.abc import Iterator

from cantle.keeper.placement_adopt import Takeover
from cantle.keeper.placement_diff import provider_words


def taken_rows(hostname: str, taken: Takeover) -> Iterator[dict[str, object]]:
    """Lines of one host. What cannot be kept says why not. Profiles are no host's."""
    for one in taken.adoptions:
        found = _row(hostname, "provider", one.provider.name, one.provider.uuid, provider_words(one.provider))
        yield {**found, "instead_of": one.instead_of or None, "ending": one.deployable_id is None}
    for profile in taken.profiles:
        yield _row(None, "profile", profile.theirs.name, profile.theirs.uuid, _says(profile.why_not))
    for request in taken.requests:
        instance = request.theirs.instance_uuid or "no instance"
        yield _row(hostname, "request", instance, request.theirs.uuid, _says(request.why_not))


def _says(why_not: str | None) -> str:
    return "kept" if why_not is None else f"not kept: {why_not}"


def _row(hostname: str | None, what: str, name: str, uuid: str, has: str) -> dict[str, object]:
    return {
        "hostname": hostname,
        "what": what,
        "name": name,
        "uuid": uuid,
        "has": has,
        "instead_of": None,
        "ending": False,
    }
