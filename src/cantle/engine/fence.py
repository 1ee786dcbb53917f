"""Which life of an agent may speak for its host: what an earlier one said long ago must not undo the words of a later one."""

from __future__ import annotations

from cantle.errors import Conflict
from cantle.store.types import Record
from cantle.wire.protocol import PROTOCOL

#: Earlier lives remembered per host; an agent that was restarted more often since is no danger any more.
REMEMBERED = 32


def check_protocol(protocol: int) -> None:
    """Refuse an agent that speaks another protocol.

    :raises Conflict: ``protocol-mismatch``.
    """
    if protocol != PROTOCOL:
        raise Conflict(
            "protocol-mismatch",
            f"The agent speaks protocol {protocol}, this server {PROTOCOL}; run the same version on both.",
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


def former_starts(host: Record, agent_start: str) -> tuple[str, ...]:
    """The earlier lives, once this one speaks."""
    if host.agent_start is None or host.agent_start == agent_start:
        return tuple(host.former_starts)
    return (host.agent_start, *host.former_starts)[:REMEMBERED]
