"""Who may speak for a host: which machine, and which life of its agent. What an earlier one said long ago must not undo the words of a
later one, and a copy of the machine, or another one under its name, must not speak for it at all.

How a reboot is told from a copy: the kernel makes an id at each boot, which never comes back. So an id that was replaced by a later one and
then speaks again is a second machine that is up at the same time.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from cantle.errors import Conflict
from cantle.store import host as store
from cantle.store.database import Database
from cantle.store.types import Record, database_now
from cantle.wire.inventory import InventoryReport
from cantle.wire.protocol import OLDEST, PROTOCOL

#: Earlier lives, and boots, remembered per host; one that ended longer ago is no danger any more.
REMEMBERED = 32

#: Seconds after which a warning that still holds is written anew.
WARNED_EVERY_S = 60

#: Refusals that a person should see at the host, and not only in its agent's log.
_WARNINGS = frozenset({"agent-fenced", "host-is-another-machine", "machine-cloned", "protocol-mismatch"})


def check_protocol(protocol: int) -> None:
    """Refuse an agent that speaks another protocol.

    :raises Conflict: ``protocol-mismatch``.
    """
    if not OLDEST <= protocol <= PROTOCOL:
        mend = "upgrade the server first" if protocol > PROTOCOL else "upgrade the agent"
        raise Conflict(
            "protocol-mismatch",
            f"The agent speaks protocol {protocol}, this server {OLDEST} to {PROTOCOL}: {mend}.",
        )


def check_start(host: Record, agent_start: str) -> None:
    """Refuse an earlier life of a host's agent.

    :raises Conflict: ``agent-fenced``.
    """
    if agent_start in host.former_starts:
        raise Conflict(
            "agent-fenced",
            f"Another agent of {host.hostname} has reported since this one (started as {agent_start}) did; stop one of them.",
            hostname=host.hostname,
        )


def check_machine(host: Record, report: InventoryReport) -> None:
    """Refuse a machine that is not the host's. Where host or report say nothing of that, nothing is refused.

    :raises Conflict: ``host-is-another-machine``, ``machine-cloned``.
    """
    if host.machine and report.machine and host.machine != report.machine:
        raise Conflict(
            "host-is-another-machine",
            f"{host.hostname} is another machine (its id hashes to {host.machine[:12]}…, this one's to {report.machine[:12]}…). If this "
            f"one takes its place, or was installed anew: cantle host confirm {host.hostname}",
            hostname=host.hostname,
        )
    if report.boot and report.boot in (host.former_boots or ()):
        raise Conflict(
            "machine-cloned",
            f"Two machines with one id take turns to speak for {host.hostname}: boot {report.boot} spoke again after {host.boot} had. "
            f"Stop the copy and give it an id of its own (machine-id(5)), then: cantle host confirm {host.hostname}",
            hostname=host.hostname,
        )


def life(host: Record, report: InventoryReport) -> dict[str, Any]:
    """What a host's row says once this report is taken in: which machine, boot and life it is."""
    values: dict[str, Any] = {
        "agent_start": report.agent_start,
        "former_starts": _former(host.agent_start, report.agent_start, host.former_starts),
        "agent_version": report.version[:64] or None,
    }
    if report.machine:
        values["machine"] = report.machine
    if report.boot:
        values["boot"] = report.boot
        values["former_boots"] = _former(host.boot, report.boot, host.former_boots or ())
    if report.generation > host.followed:
        values["followed"] = report.generation
    if is_ahead(host, report.generation) and host.frozen_at is None:
        values |= frozen(host, report.generation)
    return values


def is_ahead(host: Record, generation: int) -> bool:
    """Whether a host has followed a generation that we know nothing of: our database is an old one, from a backup."""
    return bool(generation > host.generation and generation > host.confirmed)


def frozen(host: Record, generation: int) -> dict[str, Any]:
    """The columns of a host that is ahead of us."""
    return {
        "frozen_at": database_now(),
        "frozen_code": "host-frozen",
        "frozen_reason": f"It has followed generation {generation}, and this server knows {host.generation}: the database was restored "
        "from a backup. What was lent since the backup is not known here. Look what is in use there, then: "
        f"cantle host confirm {host.hostname}",
        "followed": generation,
    }


def warn(db: Database, hostname: str, refusal: Conflict) -> None:
    """Let a refusal be seen at the host, at most once a minute; a copy of its machine freezes it: who knows which of the two is right."""
    if refusal.code not in _WARNINGS:
        return
    with db.read() as connection:
        row = store.find(connection, hostname)
    freezes = refusal.code == "machine-cloned" and row is not None and row.frozen_at is None
    if row is None or (_is_recent(row, refusal.code) and not freezes):
        return
    others = tuple(one for one in row.warnings or () if one[0] != refusal.code)
    values: dict[str, Any] = {"warnings": (*others, (refusal.code, refusal.message, row.now.isoformat()))}
    if freezes:
        values |= {"frozen_at": database_now(), "frozen_code": refusal.code, "frozen_reason": refusal.message}
    db.run(lambda connection: store.change(connection, row.id, **values))


def _is_recent(row: Record, code: str) -> bool:
    said = [dt.datetime.fromisoformat(said_at) for kind, _, said_at in row.warnings or () if kind == code]
    return any((row.now - at).total_seconds() < WARNED_EVERY_S for at in said)


def _former(before: str | None, now: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The earlier ones, once this one speaks."""
    if before is None or before == now:
        return tuple(known)
    return (before, *known)[:REMEMBERED]
