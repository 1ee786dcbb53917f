"""One card in a command: found by the words on the command line, waited for, and shown to people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from cantle import errors
from cantle.cli.client import Client, segment
from cantle.cli.exit_codes import TimedOut
from cantle.cli.wait import wait_for
from cantle.model.uuids import canonical

_SHORT = re.compile(r"[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")

host_option = click.option("--host", help="The card's host. [default: the only one with a card at that address]")
wait_option = click.option(
    "--wait/--no-wait",
    default=True,
    show_default=True,
    help="Return when the host has followed, or when it is accepted.",
)
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait.",
)


def locate(client: Client, wanted: str, host: str | None = None) -> str:
    """The path of the one card that a uuid, an address or HOST/ADDRESS names.

    :raises click.UsageError: it is empty, as of a variable that is not set.
    :raises NotFound: ``device-not-found``. :raises Conflict: ``device-ambiguous``.
    """
    if not wanted:
        raise click.UsageError("The name or uuid is empty.")
    named, _, address = wanted.rpartition("/")
    host = host or named
    if host:
        return _path(host, address)
    if canonical(wanted) is not None:
        found = [client.get(f"/v1/devices/{segment(wanted)}")]
    else:
        spelled = f"0000:{address}" if _SHORT.fullmatch(address.lower()) else address
        found = list(client.pages("/v1/devices", "devices", {"address": spelled, "fields": "hostname,address"}))
    if not found:
        raise errors.NotFound(
            "device-not-found", f"There is no device {wanted!r}. 'cantle device list' shows them all.", device=wanted
        )
    if len(found) > 1:
        names = ", ".join(f"{row['hostname']}/{row['address']}" for row in found)
        raise errors.Conflict("device-ambiguous", f"{wanted!r} is on more than one host: say which, as one of {names}.")
    return _path(found[0]["hostname"], found[0]["address"])


def seen(card: Mapping[str, Any]) -> dict[str, str]:
    """Headers that let a change of a card's intent through only if it still is as it was seen here."""
    wish = card["intent"]
    return {"If-None-Match": "*"} if wish is None else {"If-Match": f'"{wish["etag"]}"'}


def until_followed(client: Client, path: str, version: int | None, *, seconds: float, become: str) -> dict[str, Any]:
    """The card once its host has followed the latest wish.

    :param version: of that wish; None for its clearing.
    :raises CantleError: ``intent-failed``: the host could not.
    :raises Conflict: ``intent-replaced``: somebody wished for something else meanwhile.
    :raises TimedOut: ``wait-timed-out``.
    """
    card: dict[str, Any] = {}

    def ask(wait: float) -> dict[str, Any]:
        card.update(client.get(path, {"wait": f"{wait:g}"}, wait=wait))
        return {**card, "state": card["intent_state"]}

    def settled(_answer: dict[str, Any]) -> bool:
        return card["intent_state"] != "pending" or _version(card) != version

    try:
        wait_for(ask, settled, seconds=seconds, what=become)
    except TimedOut as error:
        why = card.get("intent_reason")
        raise TimedOut(error.code, f"{error.message} {why}." if why else error.message) from error
    if _version(card) != version:
        raise errors.Conflict(
            "intent-replaced",
            f"Somebody has changed the intent for {card['address']} of {card['hostname']} meanwhile. "
            "'cantle device intent show' says to what.",
        )
    if card["intent_state"] == "failed":
        raise errors.CantleError("intent-failed", f"{card['intent_reason']}. Its host goes on trying.")
    return card


def readable(card: Mapping[str, Any]) -> dict[str, Any]:
    """A card for a table: nested fields become words."""
    types = [
        f"{type_id} ({name})" if name else type_id
        for offered in card["mdev_types"].values()
        for type_id, name in offered.items()
    ]
    return {**card, "mdev_types": list(dict.fromkeys(types)), "intent": wish_words(card["intent"])}


def wish_words(wish: Mapping[str, Any] | None) -> str | None:
    """``mdev with nvidia-223 (version 3)``."""
    if wish is None:
        return None
    types = ", ".join(dict.fromkeys(wish["types"].values()))
    return f"{wish['mode']}{f' with {types}' if types else ''} (version {wish['version']})"


def _version(card: Mapping[str, Any]) -> int | None:
    wish = card["intent"]
    return None if wish is None else int(wish["version"])


def _path(host: str, address: str) -> str:
    return f"/v1/hosts/{segment(host)}/devices/{segment(address)}"
