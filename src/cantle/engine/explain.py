"""Why not? For every host and card the first reason why a request is not served there. Reads, and writes nothing."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping

from sqlalchemy import Connection

from cantle.engine import absent, choice
from cantle.engine.choice import Asked
from cantle.errors import BadRequest, NoCapacity
from cantle.model.alias import NO_ALIASES, Aliases
from cantle.model.explanation import Explanation
from cantle.model.kind import mismatch
from cantle.scheduling.explain import Explainer
from cantle.store import host, offer
from cantle.store.database import Database


def explain(
    db: Database,
    *,
    name: str | None = None,
    extra_specs: Mapping[str, str] | None = None,
    count: int = 1,
    hostname: str | None = None,
    nodes: Collection[int] = (),
    aliases: Aliases = NO_ALIASES,
) -> Explanation:
    """What could serve ``count`` times a profile or flavor, or extra specs, now, and why the rest could not.

    :param name: a profile or flavor; or else ``extra_specs``.
    :param hostname: look at this host alone.
    :raises NotFound: ``profile-not-found``, ``host-not-found``.
    :raises BadRequest: ``bad-question`` without or with two things asked for; what `cantle.engine.choice.by_name` raises.
    """
    if (name is None) == (extra_specs is None):
        raise BadRequest("bad-question", "Ask about one thing: a profile, a flavor, or extra specs.")
    with db.read() as connection:
        if name is not None:
            asked = choice.by_name(connection, name, count, aliases)
        else:
            asked = choice.by_extra_specs(connection, extra_specs or {}, count, aliases)
        if hostname is not None and host.find(connection, hostname) is None:
            raise absent.host(hostname)
        return look(connection, asked, hostname=hostname, nodes=nodes)


def look(
    connection: Connection, asked: Asked, *, hostname: str | None = None, nodes: Collection[int] = ()
) -> Explanation:
    """The same for what was asked already. Five statements."""
    right = [kind for kind in asked.kinds if any(mismatch(group, kind) is None for group in asked.request.groups)]
    known = list(asked.kinds) if hostname is not None else choice.with_companions(right, asked.kinds)
    digests = {kind.digest for kind in known}
    explainer = Explainer(asked.request, nodes)
    for name, offers in offer.by_host(connection, known, hostname=hostname):
        explainer.add(name, offers)
    if hostname is None:
        others = {kind.digest: kind for kind in asked.kinds}
        for digest, cards in offer.per_kind(connection, digests).items():
            if digest in others:
                explainer.add_kind(others[digest], cards)
    for row in offer.per_mode(connection, hostname):
        explainer.add_mode(row.mode, row.cards, row.hosts, row.example)
    until = offer.lent_until(connection, digests)
    return explainer.result(None if until is None else until.isoformat(timespec="seconds"))


def without_names(error: NoCapacity) -> NoCapacity:
    """The same refusal for somebody who is told no names of hosts and cards."""
    found = error.details.get("explanation")
    if not isinstance(found, Explanation):
        return error
    told = found.without_names()
    return NoCapacity(
        error.code, error.message.replace(found.summary, told.summary), **{**error.details, "explanation": told}
    )


def refusal(
    asked: Asked, explanation: Explanation, *, hostname: str | None = None, nodes: Collection[int] = ()
) -> NoCapacity:
    """The error for a request that cannot be served, with the explanation in it and the command that asks the same again."""
    command = ["cantle", "explain", "--profile", asked.name]
    command += [] if hostname is None else ["--host", hostname]
    command += [] if asked.request.count == 1 else ["--count", str(asked.request.count)]
    for node in nodes:
        command += ["--numa-node", str(node)]
    return NoCapacity(
        "no-capacity",
        f"No host can serve {asked.name} now. {explanation.summary}. '{shlex.join(command)}' says more.",
        explanation=explanation,
    )
