"""``/v1/explain``: what could serve a request now, and why the rest could not. It writes nothing."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cantle.api.call import Call
from cantle.api.rules import EXPLAIN_NAMES
from cantle.api.v1.hostname import NamesHost
from cantle.engine import explain as engine
from cantle.errors import BadRequest
from cantle.model.explanation import Explanation
from cantle.model.flavor import check_extra_specs


class ExplainQuery(NamesHost, frozen=True, kw_only=True):
    """What is asked about: ``profile`` names a device profile or a flavor; or else ``extra_specs``, a JSON object as text.

    ``hostname``: this host alone (also as ``host``); ``numa_nodes``: the guest's memory nodes, separated by commas.
    """

    profile: str | None = None
    extra_specs: str | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    numa_nodes: str | None = None


class ReasonShape(msgspec.Struct, frozen=True):
    """Why so many cards, or hosts (``cards`` is 0 then), were left out, and what would mend it."""

    code: str
    what: str
    mend: str
    cards: int
    hosts: int
    examples: list[str]


class GroupShape(msgspec.Struct, frozen=True):
    """One group of the request: ``suitable`` cards would do for it by themselves; each other card is counted under one reason."""

    name: str
    units: int
    suitable: int
    reasons: list[ReasonShape]


class Shape(msgspec.Struct, frozen=True):
    """An explanation on the wire; the words are those of :class:`cantle.model.explanation.Explanation`. ``fitting`` and all ``examples``
    are empty for who may not read them (rule ``cantle:explain:names``)."""

    summary: str
    fits: bool
    fit_count: int
    fitting: list[str]
    hosts: int
    cards: int
    groups: list[GroupShape]
    together: list[ReasonShape]


def show(call: Call) -> Shape:
    """Look at every host and card."""
    asked: ExplainQuery = call.query
    found = engine.explain(
        call.db,
        name=asked.profile,
        extra_specs=None if asked.extra_specs is None else _specs(asked.extra_specs),
        count=asked.count,
        hostname=asked.named(),
        nodes=nodes(asked.numa_nodes),
        aliases=call.site.settings.aliases,
    )
    return told(call, found)


def told(call: Call, found: Explanation) -> Shape:
    """The explanation for this caller: without names for who may not read them."""
    return shape(found if call.site.policy.allows(EXPLAIN_NAMES, call.who) else found.without_names())


def shape(found: Explanation) -> Shape:
    """The explanation on the wire."""
    plain = {
        name: getattr(found, name)
        for name in ("summary", "fit_count", "fitting", "hosts", "cards", "groups", "together")
    }
    return msgspec.convert({**plain, "fits": found.fit_count > 0}, Shape, from_attributes=True)


def nodes(text: str | None) -> tuple[int, ...]:
    """Memory nodes written with commas.

    :raises BadRequest: ``bad-argument``.
    """
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if not all(word.isascii() and word.isdigit() and len(word) <= 6 for word in words):
        raise BadRequest("bad-argument", f"numa_nodes is {text!r}; give numbers separated by commas, such as 0,1.")
    return tuple(int(word) for word in words)


def _specs(text: str) -> dict[str, str]:
    try:
        return check_extra_specs(msgspec.json.decode(text, type=dict[str, object]))
    except msgspec.MsgspecError as error:
        raise BadRequest(
            "bad-argument", f'extra_specs is not a JSON object such as {{"gpus": "= 2"}}: {error}.'
        ) from error
